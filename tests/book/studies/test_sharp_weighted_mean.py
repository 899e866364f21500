"""The chapter on the weighted mean: its whole measurement, its sums and cases, and what is recorded of the dial."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import Mask
from analysis.transformer.attention import attend
from book.studies.shared.equality import draw, random_layer
from book.studies.weighted_mean import dial, experiments, identities, sentence
from tests.book.studies.known import double, plain, record

study = import_module("book.studies.weighted_mean.measure")  # the package exports a function of that name
CPU = torch.device("cpu")
EYE = torch.eye(2).double()
COUNTS = {"modules": 9, "files": 8, "own": 5, "beside": 3, "none": 1, "without": "a.B", "transformers": "4"}


def noted(monkeypatch, module, *names):
    """Let these functions of a module return what they were given, and their name."""
    for name in names:
        monkeypatch.setattr(module, name, lambda *given, name=name: (name, *given))


def test_the_whole_chapter_is_measured_on_one_layer_of_three_heads(monkeypatch):
    noted(monkeypatch, study, "measure_word", "measure_random_layer", "measure_dropout", "measure_cases")
    noted(monkeypatch, study, "measure_mean_layer", "merging_ratio", "measure_folding", "measure_dial")
    asked = []
    monkeypatch.setattr(
        study.publish,
        "live_or_record",
        lambda name, inputs, recompute: asked.append((name, inputs.model, recompute)) or (record(**COUNTS), ""),
    )
    monkeypatch.setattr(study, "measure_folding", lambda layer, inputs: ((layer, inputs), "record of foldings"))
    monkeypatch.setattr(study, "measure_dial", lambda models, inputs: ((models, inputs), "record of the dial"))
    m = study.measure(device="cpu")
    name, layer, x = m.random
    assert name == "measure_random_layer"
    assert layer.W_Q.shape == layer.W_K.shape == layer.W_V.shape == (3, 12, 4)
    assert torch.equal(x, draw(9, 12))
    assert torch.equal(layer.W_Q, random_layer(3, 12, 4).W_Q)
    assert m.dropout == ("measure_dropout", layer, x)
    assert m.cases == ("measure_cases", layer, x)
    assert m.mean_layer == ("measure_mean_layer", x)
    assert m.word == ("measure_word",)
    assert (m.merging.one_head, m.merging.twelve_heads) == (("merging_ratio", 768, 1), ("merging_ratio", 768, 12))
    assert m.models == ("gpt2-mini", "minilm")
    assert m.folding == (layer, m.inputs)
    assert m.dial == (m.models, m.inputs)
    assert m.sources == {"folding": "record of foldings", "dial": "record of the dial"}
    assert m.survey.counts == COUNTS
    assert (m.survey.none, m.survey.beside, m.survey.without) == ("one", "3", "a.B")
    assert asked == [("weighted-mean-output-projections", "gpt2-mini", False)]


def test_of_several_modules_the_number_is_told(monkeypatch):
    for none, told in ((0, "0"), (2, "2")):
        table = record(**COUNTS | {"none": none})
        monkeypatch.setattr(study.publish, "live_or_record", lambda *_, table=table, **__: (table, ""))
        assert study.measure_survey(None).none == told


# ---- what is exact


def broken(monkeypatch, name, change):
    """Let a function of the module return something else."""
    own = getattr(identities, name)
    monkeypatch.setattr(identities, name, lambda *given: change(own(*given)))


def errors_above(limit=1e-6):
    found = identities.measure_random_layer(random_layer(3, 12, 4), draw(9, 12))
    return {name for name, error in found.errors.items() if error > limit}


def test_each_identity_of_the_random_layer_fails_with_what_it_holds_together(monkeypatch):
    assert errors_above() == set()
    with monkeypatch.context() as changed:
        broken(changed, "project", lambda values: 2 * values)
        assert errors_above() == {"sum over heads", "concatenation", "weighted inputs"}
    with monkeypatch.context() as changed:
        own = identities.attend
        changed.setattr(
            identities,
            "attend",
            lambda *given: SimpleNamespace(attention=own(*given).attention, output=own(*given).output + 1),
        )
        assert errors_above() == {"sum over heads", "concatenation"}
    with monkeypatch.context() as changed:
        changed.setattr(identities.uniform, "uniform_causal", lambda n: torch.eye(n).double())
        assert errors_above() == {"running means", "loop over prefixes"}
    with monkeypatch.context() as changed:
        changed.setattr(identities.uniform, "cumulative_means", lambda x: x)
        assert errors_above() == {"running means"}


def test_errors_are_the_largest_of_any_sign(monkeypatch):
    monkeypatch.setattr(identities.uniform, "cumulative_means", lambda x: double([1, 2], [2, 3.5]) + double(0, 7))
    found = identities.measure_random_layer(plain(2, W_V=EYE, W_O=EYE), double([1, 2], [3, 4]))
    assert found.errors["running means"] == pytest.approx(7.5)  # 2 - 9 and 3 - 10.5, while the first column is right
    assert found.visible.tolist() == [[1, 0.5, 0.5]]


def test_cases_are_uniform_where_their_name_says_so():
    found = identities.measure_cases(random_layer(3, 12, 4), draw(9, 12))
    assert {name: case.uniform for name, case in found.items()} == {
        "all of W_Q, W_K, b_Q zero": True,
        "W_K zero, any biases": True,
        "W_Q and b_Q zero, b_K huge": True,
        "queries and keys orthogonal": True,
        "W_Q zero, b_Q not": False,
        "equal rows in W_K, any input": False,
        "equal rows in W_K, one-hot input": True,
        "equal rows in W_K, LayerNorm of unit gain": True,
        "rows of W_K over gain, LayerNorm": True,
        "equal rows in W_Q, LayerNorm, bias": False,
    }
    one_hot = found["equal rows in W_K, one-hot input"].x
    assert one_hot.sum(1).tolist() == [1] * 9
    assert len(one_hot.argmax(1).unique()) == 6  # some tokens come twice
    huge = found["W_Q and b_Q zero, b_K huge"].layer
    assert torch.equal(huge.b_K, 100 * random_layer(3, 12, 4).b_K)
    equal = found["equal rows in W_K, any input"].layer.W_K
    assert torch.equal(equal, draw(3, 1, 4).expand(3, 12, 4))
    gain, bias, x = draw(12, seed=3) + 2, draw(12, seed=4), draw(9, 12)
    standard = (x - x.mean(1, keepdim=True)) / x.std(1, correction=0, keepdim=True)
    over = found["rows of W_K over gain, LayerNorm"]
    torch.testing.assert_close(over.layer.W_K * gain[:, None], equal)
    torch.testing.assert_close(over.x, standard * gain + bias, rtol=1e-4, atol=1e-4)
    for name in ("equal rows in W_K, LayerNorm of unit gain", "equal rows in W_Q, LayerNorm, bias"):
        torch.testing.assert_close(found[name].x, standard + bias, rtol=1e-4, atol=1e-4)
        assert found[name].hull is not None
    assert torch.equal(found["equal rows in W_Q, LayerNorm, bias"].layer.W_Q, torch.ones(3, 12, 4).double())
    apart = found["queries and keys orthogonal"].layer
    assert not apart.W_Q[..., 2:].any()
    assert not apart.W_K[..., :2].any()
    assert not apart.b_Q[:, 2:].any()
    assert found["W_Q zero, b_Q not"].content == 0 < found["W_Q zero, b_Q not"].constant
    assert found["equal rows in W_Q, LayerNorm, bias"].constant > 1e-3


def test_the_mean_layer_is_off_by_what_its_module_adds(monkeypatch):
    """With one head the module returns twice the mean, with three heads three times, and half of the weights."""
    x = draw(9, 12)

    def module(family, layer):
        run = partial(attend, layer=replace(layer, mask=Mask(causal=True)))
        scale = 2 if layer.heads == 1 else 3
        return lambda rows: (scale * run(rows).output, 0.5 * run(rows).attention)

    monkeypatch.setattr(identities, "attention_module", module)
    found, means = identities.measure_mean_layer(x), x.cumsum(0) / torch.arange(1, 10)[:, None]
    assert found.error == pytest.approx(2 * means.abs().max().item())
    assert found.one_head_error == pytest.approx(means.abs().max().item())
    assert found.attention_error == pytest.approx(0.5)
    assert found.shapes == ((9, 12), (9, 12))
    apart = min((3 * (means[i] - means[j])).norm().item() for i in range(9) for j in range(i))
    assert found.rows_apart == pytest.approx(apart)
    # a one-hot row and three times the mean of n of them
    assert found.own_share.tolist() == pytest.approx([(1 + 3 / n) / 4 for n in range(1, 13)])


def test_a_tenth_of_the_weights_is_dropped_and_the_others_grow():
    layer, x = random_layer(3, 12, 4), draw(9, 12)
    found = identities.measure_dropout(layer, x)
    whole = identities.attend(x, layer).attention
    ratio = found.attention / whole
    dropped = ratio == 0
    assert torch.equal(dropped, torch.rand(3, 9, 9, generator=torch.Generator().manual_seed(0)) <= 0.1)
    torch.testing.assert_close(ratio[~dropped], torch.full_like(ratio[~dropped], 10 / 9))
    assert dropped.double().mean().item() == pytest.approx(0.1, abs=0.05)
    sums = found.attention.sum(-1)
    assert found.row_sums == (sums.min().item(), sums.max().item())
    heads = [found.attention[h] @ (x @ layer.W_V[h] + layer.b_V[h]) @ layer.W_O[h] for h in range(3)]
    torch.testing.assert_close(found.output, sum(heads) + layer.b_O)
    # the bias of the values, which the folded form adds whole
    missing = sum((sums[h] - 1)[:, None] * (layer.b_V[h] @ layer.W_O[h]) for h in range(3))
    assert found.error == pytest.approx(missing.abs().max().item())


def test_the_folded_forms_are_the_worst_of_all(monkeypatch):
    gpt2 = {form: np.array([0.0, 1e-13]) for form in (*identities.REWRITINGS, "other")}
    random = {family: dict.fromkeys((*identities.REWRITINGS, "other"), 2e-13) for family in ("gpt2", "bert")}
    gpt2["other"][0] = random["bert"]["other"] = 1
    folding = identities.Folding(random, {}, gpt2)
    assert folding.rewriting_error() == 2e-13
    random["bert"][identities.REWRITINGS[1]] = 5e-13
    assert folding.rewriting_error() == 5e-13
    gpt2[identities.REWRITINGS[0]][0] = 9e-13
    assert folding.rewriting_error() == 9e-13


def test_one_wide_head_reads_rows_of_its_own_width(monkeypatch):
    asked = []
    monkeypatch.setattr(
        identities,
        "gaps",
        lambda family, layer, x: asked.append((family, tuple(layer.W_Q.shape), tuple(x.shape))) or {"one": 0.5},
    )
    monkeypatch.setattr(identities.publish, "live_or_record", lambda name, _: (record(one=[1.0]), name))
    found, source = identities.measure_folding(random_layer(3, 12, 4), SimpleNamespace(device=CPU))
    assert source == "patterns-and-messages-equality-gpt2"
    assert set(asked) == {
        (family, *shapes)
        for family in ("gpt2", "bert")
        for shapes in (((3, 12, 4), (2, 9, 12)), ((1, 8, 8), (2, 9, 8)))
    }
    assert found.gpt2["one"].tolist() == [1]
    assert found.random == found.one_head == {"gpt2": {"one": 0.5}, "bert": {"one": 0.5}}


# ---- the dial


def test_first_and_last_layers_are_shown_at_a_dial_of_one(monkeypatch):
    """Four dials, of which the third is one; two layers of three heads; the control's numbers are a hundred less."""
    dials = np.array([0.0, 0.5, 1, 2])
    of_gpt2 = {name: start + np.arange(12.0).reshape(4, 3) for name, start in (("positions", 0), ("stand_ins", 20))}
    of_gpt2["stand_ins"][2, 1] = 60
    table = record(**of_gpt2, control=of_gpt2["positions"] - 50, dials=dials, stand_ins_self=np.array([0.1, 0.25, 0.4]))
    given = dict(table.arrays)
    monkeypatch.setattr(type(table), "__getitem__", lambda self, name: 5 if name == "positions" else self.arrays[name])
    spectra = record(control_varying=np.array([[1, 2, 3], [7, 7, 7]]))
    records = {"weighted-mean-gpt2": table, "patterns-and-messages-spectra-gpt2": spectra}
    monkeypatch.setattr(dial.publish, "live_or_record", lambda name, *_, **__: (records[name], name))
    on_text = 100 + np.arange(24.0).reshape(4, 2, 3)
    monkeypatch.setattr(
        dial, "entropies_on_text", lambda models, dials, inputs, seed: {"own": on_text - (seed == 0) * 100}
    )
    monkeypatch.setattr(dial, "previous_token_share", lambda inputs: "a share")
    fields = [name for name in dial.Dial.__dataclass_fields__ if name.startswith(("ladder", "seeds", "spread"))]
    monkeypatch.setattr(dial, "measure_ladder", lambda inputs: dict.fromkeys(fields))
    found, source = dial.measure_dial(("own",), None)
    assert source == "weighted-mean-gpt2"
    assert {name: row.tolist() for name, row in found.rows.items()} == {
        "gpt2 layer 0, positions": [6, 7, 8],
        "gpt2 layer 0, stand-ins": [26, 60, 28],
        "own layer 0, text": [112, 113, 114],
        "own layer 1, text": [115, 116, 117],
    }
    assert {name: row.tolist() for name, row in found.controls.items()} == {
        "gpt2 layer 0, positions": [-44, -43, -42],
        "gpt2 layer 0, stand-ins": [-44, -43, -42],
        "own layer 0, text": [12, 13, 14],
        "own layer 1, text": [15, 16, 17],
    }
    first = [[100, 101, 102], [106, 107, 108], [112, 113, 114], [118, 119, 120]]
    assert found.panels["own, text"].tolist() == first
    assert found.panel_controls["own, text"].tolist() == (np.array(first) - 100).tolist()
    assert np.array_equal(found.panels["gpt2, stand-ins"], given["stand_ins"])
    assert np.array_equal(found.panel_controls["gpt2, stand-ins"], given["control"])
    assert found.key_counts.tolist() == [2, 3, 4, 5]
    assert found.control_varying.tolist() == [1, 2, 3]
    assert (found.swing, found.swing_head, found.swing_self) == ("53.00", "1", "25%")
    assert (found.control, found.sharpest, found.flattest) == ("-44.000", "6.000", "117.00")


def test_whole_models_are_run_at_every_dial_on_the_readers_texts(monkeypatch):
    asked = []

    def shares(checkpoint, dials, **which):
        asked.append((checkpoint, dials, which))
        return double([[1, 2]])

    monkeypatch.setattr(dial, "entropy_shares", shares)
    monkeypatch.setattr(dial.checkpoints, "find", lambda name: f"checkpoint of {name}")
    inputs = SimpleNamespace(texts="own.txt", device="cpu")
    found = dial.entropies_on_text(("a", "b"), np.array([0.0, 2.0]), inputs, 3)
    assert {name: values.tolist() for name, values in found.items()} == {"a": [[[1, 2]]], "b": [[[1, 2]]]}
    which = {"passages": 8, "source": "own.txt", "control_seed": 3, "device": "cpu"}
    assert asked == [(f"checkpoint of {name}", (0.0, 2.0), which) for name in ("a", "b")]


def test_the_share_on_the_token_before_is_read_off_head_2_of_layer_0(monkeypatch):
    asked = []
    maps = torch.full((1, 2, 4, 3, 3), 0.25).double()
    maps[0, 0, 2].diagonal(-1)[:] = double(0.5, 0.7)
    monkeypatch.setattr(dial, "log_maps", lambda checkpoint, **which: asked.append((checkpoint, which)) or maps.log())
    monkeypatch.setattr(dial.checkpoints, "find", lambda name: name)
    assert dial.previous_token_share(SimpleNamespace(texts="own", device="cpu")) == "60.0 %"
    assert asked == [("minilm", {"passages": 8, "source": "own", "device": "cpu"})]


def test_a_bound_on_the_entropy_holds_and_is_nearly_reached():
    """Two equal groups of keys that lie half a nat apart."""
    weights = np.repeat([np.exp(0.5), 1.0], 50)
    weights /= weights.sum()
    lost = np.log(100) + (weights * np.log(weights)).sum()
    assert 0.95 * dial.entropy_lost(0.5) < lost < dial.entropy_lost(0.5)


def test_curves_are_means_over_sequences_and_over_rows_but_the_first(monkeypatch):
    """Two sequences of three rows; in the second all weights are equal, in the first the third row is sharp."""
    monkeypatch.setattr(experiments, "DIALS", double(1))
    layer = plain(1, W_Q=double([1]), W_K=double([100]))
    sharp, even = double([0], [0], [30]), double([0], [0], [0])
    share, own = experiments.curves(torch.stack([sharp, even]), layer)
    assert share.tolist() == [[pytest.approx((1 + 0 + 1 + 1) / 4)]]
    assert own.tolist() == [pytest.approx((1 / 2 + 1 + 1 / 2 + 1 / 3) / 4)]
    found = experiments._share_of_entropy(torch.stack([sharp, even]), layer)
    assert found.tolist() == [pytest.approx(3 / 4)]


def test_recorded_numbers_may_differ_by_rounding_and_seeds_by_more(monkeypatch):
    monkeypatch.setattr(experiments, "of_model", lambda name, device: (np.array(name), np.array(f"{name} controls")))
    monkeypatch.setattr(experiments, "of_gpt2", lambda device: (np.array("first layer"), np.array("its controls")))
    found = experiments.measure_ladder(CPU)
    assert {name: str(array) for name, array in found.arrays.items()} == {
        "gpt2-mini": "gpt2-mini",
        "gpt2-mini-controls": "gpt2-mini controls",
        "minilm": "minilm",
        "minilm-controls": "minilm controls",
        "gpt2": "first layer",
        "gpt2-controls": "its controls",
    }
    assert found.tolerances == dict.fromkeys(found.arrays, 1e-4)
    monkeypatch.setattr(experiments, "find_run", lambda seed, device: f"run {seed}")
    monkeypatch.setattr(experiments.checkpoints, "find", lambda folder: folder)
    monkeypatch.setattr(
        experiments,
        "entropy_shares",
        lambda run, passages, device: double([[int(run.split()[1]), passages]], [[99, 99]]),
    )
    found = experiments.measure_seeds(CPU)
    assert found.arrays["shares"].tolist() == [[[seed, 4]] for seed in experiments.SEEDS]
    assert found.tolerances == {"shares": 0.2}


# ---- the sentence of the viewer


def test_products_are_those_of_rows_less_their_mean_over_the_largest():
    rows = double([[3, 0], [0, 3], [0, 0]], [[0, 0], [2, 0], [4, 0]])
    # less the mean (1, 1): (2, -1), (-1, 2), (-1, -1); less (2, 0): (-2, 0), 0, (2, 0)
    first = [[5, -4, -1], [-4, 5, -1], [-1, -1, 2]]
    second = [[4, 0, -4], [0, 0, 0], [-4, 0, 4]]
    due = np.array([np.divide(first, 5), np.divide(second, 4)])
    assert sentence.multiply_values(rows).tolist() == pytest.approx(due)


def test_scores_are_logarithms_below_the_largest_of_their_row(monkeypatch):
    """One causal layer; a key that is not seen has the lowest score that is kept."""
    maps = double([[1, 0], [0.2, 0.8]])[None]
    out = SimpleNamespace(hidden_states=[double([[1, 0], [0, 1]])] * 2, attentions=[maps])
    layer = plain(2, W_V=torch.diag(double(1, 3)), W_O=2 * EYE, b_V=double(9, 9))
    monkeypatch.setattr(sentence, "load", lambda _: SimpleNamespace(plain_layers=lambda: [layer]))
    monkeypatch.setattr(sentence.extraction, "attention_inputs", lambda _, states: states)
    scores, products = sentence.read(lambda ids, **asked: out, None)
    assert scores.shape == products.shape == (1, 1, 2, 2)
    assert scores[0, 0].tolist() == [[0, -6e4], [pytest.approx(np.log(0.25), rel=1e-3), 0]]
    assert products[0, 0].tolist() == [[1, -1], [-1, 1]]


def test_a_random_layer_may_look_back_alone():
    found = identities.measure_random_layer(random_layer(3, 12, 4), draw(9, 12))
    assert found.visible.shape == (3, 45)
    assert found.future.shape == (3, 36)
    assert not found.future.any()
    assert found.layer.mask == Mask()
