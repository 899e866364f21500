"""Patterns, messages and induction heads: what the studies measure, on inputs whose answer is known by hand."""

import math
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS
from analysis.transformer import induction
from analysis.transformer.attention import attend
from book.studies.induction_head import prediction, trained, walkthrough
from book.studies.patterns_and_messages import forms, readings, spectra
from book.studies.shared.equality import draw, random_layer
from tests.book.studies.known import double, plain, record

measure = import_module("book.studies.induction_head.measure")
EYE = torch.eye(2).double()


# ---- patterns and messages


def test_random_layers_and_the_record_stand_side_by_side(monkeypatch):
    names = []
    monkeypatch.setattr(forms, "gaps", lambda family, layer, x: {"one": len(family), "two": layer + x})
    table = record(one=[1.0], two=[2.0], three=[3.0])
    monkeypatch.setattr(forms.publish, "live_or_record", lambda name, _: names.append(name) or (table, "source"))
    found, source = forms.measure_equality(10, 5, None)
    assert (found.random, source) == ({"gpt2": {"one": 4, "two": 15}, "bert": {"one": 4, "two": 15}}, "source")
    assert {name: values.tolist() for name, values in found.gpt2.items()} == {"one": [1], "two": [2]}
    assert names == ["patterns-and-messages-equality-gpt2"]


def test_the_first_list_lacks_a_name_and_the_second_does_not(monkeypatch):
    layer = random_layer(3, 12, 4)
    for bias in (layer.b_Q, layer.b_K, layer.b_V, layer.b_O):
        bias.zero_()
    module = lambda family, of: lambda x: (attend(x, of).output, None)  # noqa: E731
    monkeypatch.setattr(readings, "attention_module", module)
    found = readings.run_printed_lists(layer, draw(2, 6, 12, seed=1))
    assert (found.undefined, found.unused) == (("P",), ("patterns",))
    assert max(found.stand_ins["patterns"], found.second) < 1e-12
    assert min(found.stand_ins["messages"], found.stand_ins["X"]) > 0.1
    names = {"X": double([1, 2], [3, 4]), "W": 2.0}
    assert readings.run({"a": "X * W", "MultiHead": "(a + X).sum(0)"}, names).tolist() == [12, 18]


def test_costs_are_ratios_of_the_merged_form(monkeypatch):
    table = record(seconds=np.array([[1.0, 2], [4, 3], [9, 9]]), lengths=np.array([16, 64]))
    monkeypatch.setattr(forms.publish, "live_or_record", lambda *_, **__: (table, ""))
    monkeypatch.setattr(forms, "count", lambda form, layer, x: (form, x.tolist()))
    found = forms.measure_costs(None, torch.tensor([[1.0], [2]]), None)
    assert list(found.seconds) == ["factored", "merged", "input-cached"]
    assert (found.merged_measured, found.merged_lengths) == ("4.0, 1.5", "16, 64")

    # per head and position, of 768 and 64: four projections of m c and 2 n c, against two of m m and 2 n m
    def ratio(n):
        return (2 * 768 * 768 + 2 * n * 768) / (4 * 768 * 64 + 2 * n * 64)

    assert found.ratios["short"] == pytest.approx(ratio(1))
    assert found.ratios["long"] == pytest.approx(ratio(1e6))
    assert found.ratios["wide head"] == pytest.approx((2 * 768 * 768 + 128 * 768) / (4 * 768 * 768 + 128 * 768))
    assert found.ratios["parameters"] == pytest.approx(2 * 768 / (4 * 64), rel=0.01)  # and biases
    assert (found.merged_short, found.merged_long) == (f"{ratio(1):.1f}", "12.0")
    assert found.merged_counted == f"{ratio(16):.1f}, {ratio(64):.1f}"
    assert found.counts["merged"] == ("merged", [[1.0]])
    cost = found.curves["multiply-adds"]
    assert (found.lengths[0], found.lengths[-1]) == (1, 100_000)
    assert cost["merged"][0] / cost["factored"][0] == pytest.approx(ratio(1))
    assert found.curves["cache (numbers)"]["factored"].tolist() == (2 * 768 * found.lengths).tolist()


def test_offsets_are_as_far_from_none_as_their_matrices(monkeypatch):
    matrix = torch.ones(4, 128, 128).double() * double(1, 2, 3, 4)[:, None, None]
    monkeypatch.setattr(forms.qk_ov, "rotary_qk_matrix", lambda _, offset: (1 + offset / 4) * matrix)
    left = double(0.5, 0.2, 0.1, 0.05, 1e-8)
    monkeypatch.setattr(
        forms.qk_ov, "rotary_remainder", lambda offsets, channel: left * (offsets == 4 and channel == 64)
    )
    layer, x = random_layer(4, 32, 8), draw(1, 6, 32)
    layer.b_K.fill_(2)
    found = forms.measure_rotary(layer, x, longest=3)
    assert found.distance.tolist() == pytest.approx(np.array([[0] * 4, [0.25] * 4, [0.5] * 4, [0.75] * 4]))
    assert (found.rotary_one, found.rotary_best, found.rotary_tenth) == ("0.25", "25 %", "4")
    assert (found.offsets.tolist(), found.remainder.tolist()) == ([0, 1, 2, 3], [0.5, 0.2, 0.1, 0.05])
    assert found.errors["rotary form"] < 1e-6
    assert min(found.errors["no b_K"], found.errors["one W_P"]) > 1e-3


def test_spectra_use_as_many_directions_as_have_a_value(monkeypatch):
    """Two layers of twelve heads of width 64; equal values in k directions have an effective rank of k."""

    def values(ranks):
        return np.stack([np.repeat([2.0, 1e-3 * 0], [int(rank), 64 - int(rank)]) for rank in ranks]).reshape(2, 12, 64)

    pattern, message = np.full(24, 10), np.full(24, 20)
    pattern[12:], message[13] = 30, 5
    controls = {
        "ladder_pattern_rank": np.full((3, 2, 2, 12), 20.0),
        "ladder_message_rank": np.full((3, 2, 2, 12), 20.0),
    }
    controls["ladder_message_rank"][1, 1, 1, 0] = 4.5
    controls["ladder_pattern_rank"][2, 1, 0, :5] = 60  # fewer heads than make a median
    varying, constant, query_bias = np.full((2, 12), 2.0), np.full((2, 12), 1.0), np.full((2, 12), 1.0)
    constant[1, :2], query_bias[0, 0], query_bias[1, 3] = 6, 8, 3
    table = record(
        pattern=values(pattern),
        message=values(message),
        augmented=1.5 * values(pattern),
        control_pattern=values(pattern + 30),
        control_message=values(message),
        control_augmented=values(message),
        varying=varying,
        constant=constant,
        query_bias=query_bias,
        control_varying=0 * varying,
        **controls,
    )
    monkeypatch.setattr(spectra.publish, "live_or_record", lambda name, _: (table, name))
    found, source = spectra.measure_spectra(None)
    assert source == "patterns-and-messages-spectra-gpt2"
    assert (found.raw_largest, found.raw_above, found.raw_first) == ("4.0", "2", "1")
    assert (found.ratio_largest, found.ratio_median, found.ratio_above, found.ratio_first) == ("3.0", "0.50", "2", "2")
    assert (found.rank_pattern, found.rank_control, found.rank_lowest) == ("20.0", "50.0", "10.0")
    assert (found.message_lowest, found.message_head, found.grown) == ("5.0", "1 of layer 1", "50%")
    assert found.ladder_lowest == "4.5"
    assert (found.pattern_below, found.message_below) == ("1", "0")  # 10 and 30 against 20, and twice 20
    assert found.ladder["pattern W_P"].trained.tolist() == pytest.approx([10, 30])
    assert list(found.ladder["message W_M"].controls) == list(RUNGS)
    for of_rung in found.ladder["pattern W_P"].controls.values():
        assert of_rung.tolist() == [[20, 20], [20, 20]]


X = double([1, 0], [0, 1], [2, 0.5])


def test_parts_of_scores_are_read_row_by_row(monkeypatch):
    """By hand, times the root of 2: the mean input is (1, 1/2)."""
    monkeypatch.setattr(readings, "SEEN", 1)
    own = plain(2, W_Q=EYE, W_K=EYE)
    varying, common, semi_bias = (part[0] * 2**0.5 for part in readings.parts(X, own))
    assert varying.flatten().tolist() == pytest.approx([0, 0, 0, -0.75, 0.75, 0, 0, -1, 1])
    assert common.flatten().tolist() == pytest.approx([0, 0, 0, 0.25, -0.25, 0, -0.25, -0.75, 1])
    assert semi_bias.abs().max() == 0
    found = readings._read(X, own)
    assert (found["constant"].item(), found["query bias"].item()) == (pytest.approx(1 - 4.5 / 7.625), 0)
    # the query bias alone: scores 1, 0, 2; the nearest by angle is the first, the longest messages 1, 3 and 5/2
    biased = plain(2, W_Q=0 * EYE, W_K=EYE, b_Q=double(2**0.5, 0), W_V=torch.diag(double(1, 3)), W_O=EYE)
    found = readings._read(X, biased)
    assert (found["constant"].item(), found["query bias"].item()) == (pytest.approx(1), pytest.approx(1))
    assert (found["angle"].item(), found["influence"].item()) == (0.5, 0.5)


def test_the_model_is_read_beside_its_control(monkeypatch):
    of = {
        None: {
            "constant": double([0.1, 0.9], [0.57, 0.45]),
            "influence": double([0.5, 0.6], [0.7, 0.8]),
            "query bias": double([0.01, 0.3], [0.02, -0.04]),
        },
        0: {"constant": double([0.05, 0.07]), "influence": double([0.25, 0.75]), "query bias": double([9, 9])},
    }
    weights = plain(2, heads=2, W_Q=EYE, W_K=EYE, b_Q=double(1, 0))
    weights.b_Q[0] = 0
    weights.W_Q[1] = 0
    monkeypatch.setattr(readings.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(readings, "readings", lambda _, control_seed, **__: of[control_seed])
    monkeypatch.setattr(readings, "layers", lambda *_, **__: iter([["wrong", (weights, X)]]))
    found = readings.measure_readings(SimpleNamespace(model="a/b", texts=None, device="cpu"))
    assert found.model == "b"
    assert (found.constant_range, found.constant_control) == ("10% to 90%", "7%")
    assert (found.query_bias_range, found.influence, found.influence_control) == ("-4 to 30 %", "50% to 80%", "50%")
    assert (found.example.layer, found.example.head) == (1, 1)  # 0.45 is nearest to a half
    assert (found.example.constant * 2**0.5)[2].tolist() == pytest.approx([0, -1, 1])  # the query bias alone
    assert np.abs(found.example.varying).max() < 1e-12


def test_the_nearest_key_hangs_on_the_space(monkeypatch):
    """Keys (1, 1), (0, 2) and (2, 6), query (0, 1), pattern (1, 2); then factors that make the first key short."""
    x = double([1, 0], [0, 1], [2, 2])
    layer = plain(2, W_Q=0 * EYE, W_K=double([1, 1], [0, 2]), b_Q=double(0, 1))
    monkeypatch.setattr(readings, "SEEN", 1)
    monkeypatch.setattr(readings, "draw", lambda *_, **__: double([[10, 0], [10, 1]]))
    monkeypatch.setattr(readings.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(readings, "layers", lambda *_, **__: iter([[(layer, x)], [(layer, x)]]))
    found = readings.measure_spaces(SimpleNamespace(model="m", texts=None, device="cpu"))
    assert (found.nearest_to_pattern, found.nearest_to_query, found.nearest_to_turned_query) == (1, 0.5, 0)


# ---- the induction head


def test_the_head_by_hand_contradicts_the_cells_that_are_printed_wrong(monkeypatch):
    monkeypatch.setattr(walkthrough, "count_mistaken_pairs", lambda: (7, {0: 3}))
    found = walkthrough.measure_by_hand()
    assert list(found.cells.values()) == [0, 0, 1, 1, 10, 12]
    assert found.wrong_cells == 24
    assert max(found.errors.values()) < 1e-12
    assert found.one_back == (1, 1)
    assert found.counts == {
        "pairs": 7,
        "passthrough rows": 6,
        "rows stored otherwise than printed": 5,  # in ! a b a c b no token follows itself
        "rows that gather a stored token": 6,
    }
    assert [table.title for table in found.compared] == list(walkthrough.readings.TABLES)
    weights, output = found.compared[4], found.compared[5]
    assert weights.computed[3].tolist() == [0, 0, 1, 0, 0, 0]  # the second a looks at b, which followed the first
    assert output.computed[3, :6].tolist() == [0, 0, 100, 0, 0, 0]
    assert sorted(found.matrices) == [f"${name}_{number}$" for name in "AVW" for number in (1, 2)]
    assert found.matrices["$A_2$"][:6, 6:].tolist() == (100 * np.eye(6)).tolist()
    assert found.mistaken_keys == {0: 3}


def test_a_head_that_is_built_otherwise_is_told():
    head = induction.build(walkthrough.VOCAB, 6)
    head.second.A[:] *= 0.5
    head.first.V[-1, -1] += 0.25
    errors = walkthrough.matrix_errors(head)
    rows = torch.randn(4, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert errors["A_2"] == pytest.approx((50 * rows[:, :6] @ rows[:, 6:].T).abs().max().item())
    assert errors["V_1"] == pytest.approx(rows[:, -1].abs().max().item() / 4)
    assert errors["W_1"] == errors["A_1 elsewhere"] == 0
    head.first.A[0, 1], head.first.A[6, 7] = 3, -95
    errors = walkthrough.matrix_errors(head)
    assert (errors["A_1 elsewhere"], errors["A_1 in the position block"]) == (3, 5)
    first, second = induction.run(walkthrough.TOKENS, induction.build(walkthrough.VOCAB, 6, gain=50.0))
    errors = walkthrough.output_errors(induction.build(walkthrough.VOCAB, 6), first, second)
    assert errors["copied at a gain of 100"] == pytest.approx(50)
    assert errors["outputs of unseen rows"] == pytest.approx(25)  # row 1 is 50 (1/2, 1/2) where 100 of them are due
    assert errors["written current tokens"] == pytest.approx(50)


def test_only_the_first_key_is_mistaken_for_a_match():
    """It stores itself, so it scores with itself, and with every later position that holds its token."""
    pairs, mistaken = walkthrough.count_mistaken_pairs(3)
    assert pairs == 1 + 2 * 4 + 5 * 9  # of 1, 2 and 5 sequences whose tokens are named as they come
    assert mistaken == {0: 1 + (2 + 1) + (5 + 2 + 2)}


def test_predictions_are_means_of_what_followed():
    found = prediction.measure_prediction()
    words = walkthrough.VOCABULARY
    assert [words[i] for i in range(6)] == ["!", "a", "b", "c", "d", "e"]
    assert found.rows == 200 * 11
    first_seen = sum(len(set(row[1:])) for row in found.sequences.tolist())
    assert found.unseen == first_seen
    assert max(found.errors.values()) < 1e-12
    assert found.copied == ("b", "a")
    for row, due in (
        (found.two_matches, [0, 0, 0.5, 0.5, 0, 0]),
        (found.skipping, [0, 0, 0, 0, 1, 0]),  # what came two after the first a
        (found.similar, [0, 0, 0, 1, 0, 0]),  # b is like a, and c came after it
        (found.context, [0, 0, 0, 0.5, 0, 0.5]),
    ):
        assert row.tolist() == pytest.approx(due, abs=1e-9)
    assert found.uneven_width == 3 + 8
    assert found.crowded_weight == pytest.approx(1 / 7)  # row 6 is in the first place: it looks at all seven alike
    assert {name: matches.sum() for name, (_, _, matches) in found.cases.items()} == {
        "one match": 1,
        "two matches": 2,
        "unseen": 0,
        "first token again": 2,
    }


def test_sharpness_is_a_logarithm_of_the_keys(monkeypatch):
    monkeypatch.setattr(measure, "KEYS", (8,))
    monkeypatch.setattr(measure, "SEPARATE", 8)
    found = measure.measure_sharpness(torch.device("cpu"))
    assert found.needed_million == pytest.approx(math.log(999 * (10**6 - 1)))
    assert found.overflow == pytest.approx(128 * math.log(2), abs=1e-6)
    assert found.separate_second == pytest.approx(math.log(9 * 7))
    assert 0 < found.separate_first < 12
    assert found.closed_form[8][0] == pytest.approx(1 / 8)
    assert found.closed_form[8][20] == pytest.approx(math.exp(2) / (math.exp(2) + 7), rel=1e-6)
    betas, measured = found.whole_head[8]
    assert (betas[0], measured[0]) == (0, pytest.approx(1 / 8))
    assert found.differences[8][0] < 1e-12
    assert found.differences[8].max() == pytest.approx(max(np.array(found.closed_form[8])[::10] - measured), abs=1e-5)


def test_circuits_of_two_heads_stand_beside_the_control(monkeypatch):
    circuit = torch.zeros(2, 4, 3, 3).double()
    circuit[0, 1].diagonal(-1)[:] = 1
    circuit[0, 3, 1, 0] = circuit[1, 1, 1, 1] = circuit[1, 1, 2, 1] = 1
    monkeypatch.setattr(trained.attention_only, "positional_qk_circuit", lambda model: circuit[model])
    by_head = double(1, 2, 3, 4)[:, None, None].expand(4, 2, 2)
    monkeypatch.setattr(
        trained.attention_only, "k_composition", lambda model, scores: by_head * scores * (1 - 3 * model)
    )
    scores = [SimpleNamespace(previous=double(1, 99)), SimpleNamespace(previous=double(10, 99))]
    heads = trained.Heads(
        {"trained": 0, "control": 1}, dict(zip(("trained", "control"), scores, strict=True)), (1, 3), 2
    )
    config = SimpleNamespace(vocab=2, length=3, longest=2)
    found = trained.measure_circuits(heads, config, {"nothing": 0.5})
    assert list(found.positions) == ["$A_1$ by hand", "head 0.1", "head 0.3", "untrained"]
    assert found.positions["$A_1$ by hand"][2].tolist() == pytest.approx([0, 1, 0], abs=1e-9)
    e = math.e
    assert found.positions["head 0.1"][2].tolist() == pytest.approx([1 / (e + 2), e / (e + 2), 1 / (e + 2)])
    assert found.positions["head 0.3"][1].tolist() == pytest.approx([e / (e + 1), 1 / (e + 1), 0])
    assert found.positions["untrained"][1].tolist() == pytest.approx([1 / (e + 1), e / (e + 1), 0])
    assert found.matches["$A_2$ by hand"].tolist() == [[100, 0], [0, 100]]
    assert [found.matches[name][0, 0] for name in ("head 1.2", "all four heads", "untrained")] == [3, 10, -60]
    assert found.one_back == {"rows 1 to 1": [1, 1, 0], "rows from 2": [1, 0, 1]}
    assert found.hidden == {"nothing": 0.5}


def test_what_layer_0_wrote_is_hidden_from_one_side(monkeypatch):
    monkeypatch.setattr(trained.attention_only, "run", lambda model, sequences: "run")
    monkeypatch.setattr(
        trained.attention_only,
        "attention_reading",
        lambda model, run, queries, keys: double([0, 10 * queries + keys], [4, 2]),
    )
    monkeypatch.setattr(trained.induction_scores, "prefix_matching", lambda maps, _: maps)
    assert trained.hide_layer_0(None, None, 1) == {"nothing": 6.5, "queries": 1.5, "keys": 6}


def test_the_bundled_model_is_measured_on_held_out_sequences(monkeypatch):
    config = SimpleNamespace(shortest=5, longest=9, length=30, vocab=20, heads=2)
    model = SimpleNamespace(config=config, to=lambda _: "model")
    control = SimpleNamespace(to=lambda _: "control")
    monkeypatch.setattr(trained.training, "load", lambda: (model, {"seed": 3, "parameters": 12345}))
    monkeypatch.setattr(
        trained.training, "Transformer", lambda of, seed: control if (of, seed) == (config, 3) else None
    )
    monkeypatch.setattr(trained, "plain", lambda network: f"plain {network if isinstance(network, str) else ''}")
    held_out = torch.tensor([[1, 2, 1, 2]]), torch.tensor([[False, True, True]])
    monkeypatch.setattr(trained.training, "held_out", lambda _: held_out)
    seen = []
    heads = SimpleNamespace(matcher=1)
    monkeypatch.setattr(trained, "find_heads", lambda models, there, _: seen.append(there) or heads)
    losses = {"without 0.0": 0.1, "without 1.0": 3.0, "without 1.1": 2.0, "without layer 1": 0.2}
    monkeypatch.setattr(trained, "ablate_heads", lambda *_: losses)
    monkeypatch.setattr(trained, "split_loss", lambda *_: (9.0, 0.75))
    monkeypatch.setattr(trained, "hide_layer_0", lambda network, _, matcher: (network, matcher))
    monkeypatch.setattr(trained, "measure_circuits", lambda *given: given[1:])
    found = trained.measure_trained(torch.device("cpu"))
    assert seen == [{"trained": "plain model", "control": "plain control"}]
    assert (found.parameters, found.shortest, found.longest, found.length) == ("12,345", 5, 9, 30)
    assert (found.early_rows, found.all_rows) == (8, 29)
    assert (found.whole, found.least_without) == (0.75, 2)
    assert found.log_distinct == pytest.approx(math.log(2))
    assert found.circuits == (config, ("plain model", 1))
    assert (found.ablation.losses, found.ablation.chance) == (losses, pytest.approx(math.log(20)))
