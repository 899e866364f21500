"""Tables of pages whose cells are known by hand: what stands in which row and column."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.core.attention_layer import Mask
from analysis.core.positions import Rotary
from book.studies.exact import tables as exact
from book.studies.exact.measure import Biases, Row
from book.studies.induction_head import tables as induction
from book.studies.induction_head.readings import Reading
from book.studies.induction_head.trained import Run
from book.studies.peers import tables as peers
from book.studies.peers.measure import Row as Way
from book.studies.rotary_bias import tables as rotary
from book.studies.rotary_bias.parts import PARTS, WAYS
from book.studies.streaming_capture import tables as streaming
from book.studies.streaming_capture.measure import Cost
from book.studies.weighted_mean import tables as weighted
from book.studies.weighted_mean.identities import ONE_MAP, REWRITINGS
from tests.book.studies.known import double


def layer(**changed) -> SimpleNamespace:
    """Return what the table of families asks of a layer, with nothing but attention in it."""
    given = {"positions": SimpleNamespace(kind="nowhere"), "biases": "", "norms": (), "groups": 2, "heads": 2}
    given |= {"mask": Mask(), "qk_norm": None, "soft_cap": 0.0, "sinks": None, "channel": 8}
    return SimpleNamespace(**(given | changed))


def family(name, stack, *layers, biases=None, **errors) -> Row:
    numbers = {"as_it_is": 2e-6, "in_double": 3e-14, "padded": None} | errors
    tried = biases or [Biases(1.0, None, None)] * len(layers)
    return Row(name, (name.lower(), "other"), stack, False, layers, tuple(tried), **numbers)


def norm(kind, place):
    return SimpleNamespace(kind=kind, place=place)


def test_families_that_are_shown_first_stand_first_and_the_others_in_their_order():
    first = [family(name, stack, layer()) for name, stack in exact.FIRST]
    others = [family("Zed", "", layer()), family("T5, mT5, umT5", "encoder", layer()), family("Alpha", "", layer())]
    table = exact.families((*others, *first[::-1]))
    assert list(table.index) == [*map(exact.name, first), "Zed", "T5, mT5, umT5, encoder", "Alpha"]


def test_a_family_is_described_by_its_layers(monkeypatch):
    monkeypatch.setattr(exact, "FIRST", ())
    quarter, whole = Rotary(double(1.0), 8), Rotary(double(1.0, 1, 1, 1), 8)
    one = layer(
        positions=quarter,
        biases="QKV",
        groups=1,
        norms=(norm("layer", "sum"),),
        mask=Mask(causal=True, reach=4),
        soft_cap=30.0,
    )
    two = layer(positions=whole, norms=(norm("rms", "input"), norm("l2", "update")), qk_norm=object(), sinks=double(0))
    tried = [Biases(1e-3, 1e-14, 1e-14), Biases(1e-3, None, 1e-3)]
    table = exact.families((family("Some", "decoder", one, two, one, biases=[*tried, tried[0]], padded=4e-13),))
    row = table.loc["Some, decoder"]
    assert row["model types"] == "some, other"
    assert row["positions"] == f"rotary 25%, {quarter.pairing} / rotary, {whole.pairing}"
    assert row["biases"] == "QKV"
    assert row["norm"] == "LayerNorm after the sum"  # of the last layer
    assert row["besides"] == "grouped queries, window, QK-norm, soft cap, sinks"
    assert row["exact"] == (
        "75% of b_K cancels; b_V folds; parts add up before the cap / "
        "b_K counts; b_V does not fold; parts are divided by norms"
    )
    assert (row["error"], row["padded"], row["as it runs"]) == ("3e-14", "4e-13", "2e-06")
    assert exact.norms((one, two)) == "RMSNorm before; L2 norm after attention"


def test_a_family_with_nothing_besides_attention_says_so():
    bare = family("Bare", "", layer(), biases=[Biases(1e-14, 1e-14, None)])
    assert exact.exact(bare) == "b_K cancels; b_V does not fold"
    assert exact.exact(family("Bare", "", layer(), biases=[Biases(1, 1, 1e-11)])) == "b_K counts; b_V does not fold"
    assert (exact.norms(bare.layers), exact.besides(bare.layers), exact.name(bare)) == ("none", exact.NOTHING, "Bare")
    assert exact.besides((layer(mask=Mask(causal=True, chunk=4)),)) == "blocks"
    assert exact.positions((layer(), layer())) == "nowhere"


def test_models_that_are_refused_for_one_reason_stand_in_one_line():
    table = exact.refusals({"a": "too new", "b": "no attention", "c": "too new"})
    assert table["models"].to_dict() == {"Too new": "a, c", "No attention": "b"}


def test_the_sharpness_is_that_from_which_every_difference_is_small():
    """A difference may rise again: it counts where all that follow are below a hundredth."""
    table = induction.sharpness({11: np.array([0.005, 0.5, 0.009, 0.02, 0.004, 0.003]), 1001: np.array([0.1234, 0])})
    assert list(table.index) == ["11", "1,001"]
    assert table.iloc[0].tolist() == [pytest.approx(np.log(10)), "0.500", 4]
    assert table.iloc[1].tolist() == [pytest.approx(np.log(1000)), "0.123", 1]


def test_runs_of_two_layers_stand_before_the_single_layer():
    run = Run(300, new=5.0, repeated=0.25, prefix=0.9, copying=0.8, looking_back=(0.1, 0.25))
    never = Run(-1, new=4.0, repeated=3.0, prefix=0.2, copying=0.1, looking_back=(0.5,))
    at_once = Run(0, new=1.0, repeated=2.0, prefix=0.3, copying=0.4, looking_back=())
    table = induction.runs({"one-layer": never, "seed-1": run, "seed-0": at_once})
    assert list(table.index) == ["seed-0", "seed-1", "one-layer"]
    assert table.loc["seed-1"].tolist() == ["step 300", 0.25, 5.0, 0.9, 0.8, "0.10, 0.25"]
    named = table.loc["seed-1", ["loss on new tokens", "loss on repeats", "copying", "prefix matching"]]
    assert named.tolist() == [5.0, 0.25, 0.8, 0.9]
    assert (table.iloc[0, 0], table.iloc[2, 0], table.iloc[2, 1]) == ("step 0", "never", 3.0)


def test_readings_are_numbered_from_one_and_named_by_what_they_change():
    changed = Reading(gain=1, rounding="whole, halves to even")
    table = induction.departures([Reading(), changed])
    assert table["departures"].to_dict() == {
        "reading 1": "none",
        "reading 2": "gain of V_2: 1; tables rounded to: whole, halves to even",
    }
    closest = induction.nearest({0: Reading(), 2: changed}, {changed: 3, Reading(): 24})
    assert closest["cells that differ"].to_dict() == {0: 24, 2: 3}
    assert closest.loc[0, "reading"] == "none"


def test_circuits_stand_beside_their_second_head_and_their_control():
    back = {"head 2": (0.9, 0.3, 0.1)}
    trained = SimpleNamespace(circuits=SimpleNamespace(one_back=back, hidden={"keys": 0.2, "values": 0.7}))
    table = induction.circuits(trained, (0.8, 0.05), (0.7, 0.04), (0.6, 0.03))
    assert table.loc["A_1: largest score one step back, head 2"].tolist() == [0.9, 0.3, 0.1]
    assert table["trained"].tolist() == [0.9, 0.8, 0.7, 0.6]
    assert table["control"].tolist() == [0.1, 0.05, 0.04, 0.03]
    assert table["second head"].isna().tolist() == [False, True, True, True]
    assert induction.hidden(trained)["prefix matching"].to_dict() == {"keys": 0.2, "values": 0.7}


def test_ways_of_the_peers_keep_their_numbers():
    table = peers.costs([Way("one", "ours", 1.5, 20.0), Way("two", "theirs", None, 30.0)])
    assert list(table.index) == ["one", "two"]
    assert table.iloc[0].tolist() == ["ours", 1.5, 20]
    assert (np.isnan(table.loc["two", "seconds"]), table.loc["two", "MB more"]) == (True, 30)


def test_a_cost_stands_beside_its_limit():
    table = streaming.costs({"a": Cost("time", 1.25, "at most", 1.5), "b": Cost("rate", 3.0, "at least", 2.0)})
    assert table.loc["time"].tolist() == [1.25, "at most 1.5"]
    assert table.loc["rate"].tolist() == [3.0, "at least 2"]
    ways = {"bare": {"seconds": 0.5, "rate": 99.6, "share": 0.25}}
    assert streaming.on_a_gpu(SimpleNamespace(ways=ways)).loc["bare"].tolist() == [0.5, 100, "25 %"]


def test_forms_of_a_layer_stand_in_rows_and_layers_in_columns():
    forms = (*REWRITINGS, ONE_MAP)
    random = {"bert": {form: 10.0 + k for k, form in enumerate(forms)}, "gpt2": dict.fromkeys(forms, 0.5)}
    gpt2 = {form: np.array([0.1, 0.3, 0.2]) * (k + 1) for k, form in enumerate(forms)}
    table = weighted.folding_errors(SimpleNamespace(random=random, gpt2=gpt2))
    assert list(table.index) == list(forms)
    assert table["random bert layer"].tolist() == [10, 11, 12]
    assert table["worst layer of GPT-2"].tolist() == pytest.approx([0.3, 0.6, 0.9])
    cases = {"flat": SimpleNamespace(content=1.0, constant=2.0, distance=3.0)}
    assert weighted.uniform_cases(cases).loc["flat"].tolist() == [1, 2, 3]
    places = weighted.projections({"own": 5, "beside": 3, "none": 2, "all": 10})["modules"]
    assert places.to_dict() == {"in the module": 5, "in a class beside it": 3, "nowhere": 2}


def test_the_rise_of_the_loss_is_told_for_biases_and_means_in_turn():
    """Two seeds; a number says how it was counted and which part was left out."""
    ways = list(WAYS)
    values = np.add.outer(np.array([0.0, 100.0]), np.arange(len(ways)))  # (counted, way)
    table = rotary.rises({"runs": np.stack([values, values + 2])}, values / 2)
    assert table.loc["key bias", "runs"] == 1 + ways.index("no key bias")
    assert table.loc["mean query", "runs"] == 101 + ways.index("no query bias")
    assert table.loc["kernel of the means", "gpt2-mini"] == 50 + ways.index("no kernel") / 2
    assert len(table) == 2 * len(rotary.LEFT_OUT)


def test_shares_of_a_variant_are_means_over_its_seeds_counted_from_the_mean():
    runs = [("a", 0), ("b", 0), ("a", 1)]
    of = np.ones((3, 2, 2, 3, len(PARTS) + 1))  # run, counted, layer, head, part
    of[..., -1] = 0
    of[0, 0] = 7  # counted from the biases
    of[[0, 2], 1, 1, :, :-1] = 0
    of[0, 1, 1, :, 2], of[0, 1, 1, :, 0] = [0.1, 0.2, 0.6], 0.1  # three quarters and one
    of[2, 1, 1, :, 2], of[2, 1, 1, :, 0] = 0.5, 0.5
    of[0, 1, 1, :, -1], of[2, 1, 1, :, -1] = [0.1, -0.4, 0.2], [0.3, 0, 0]
    table = rotary.shares(of, runs)
    assert list(table.index) == ["a, layer 0", "a, layer 1", "b, layer 0", "b, layer 1"]
    written = list(PARTS)[2].replace("semi_bias", "semi-bias").replace("_", " ")
    assert isinstance(table, pd.DataFrame)
    assert table.loc["a, layer 1", written] == pytest.approx(0.625)
    assert table.loc["a, layer 1", "not turned"] == 0.4  # the largest, whatever its sign
    assert table.loc["a, layer 0"].tolist() == table.loc["b, layer 1"].tolist() == [*[1 / len(PARTS)] * len(PARTS), 0]
