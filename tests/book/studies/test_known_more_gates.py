"""What the studies of gates and of their detector write on the page, on inputs whose answer is known by hand."""

import math
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics.intervals import Interval
from book.publish.records import Value
from book.studies.bert_gates import controls, gate_census, sink
from book.studies.bert_gates import experiments as recorded
from book.studies.bert_gates.controls import LARGE, PERMUTED, SHARP
from book.studies.bert_gates.gate_census import ModelCensus, Ratio
from book.studies.gate_detector import calibration, cost
from book.studies.gate_detector.calibration import COUNT, DRAWN, INDEPENDENT, KINDS, SIZES, UNKIND
from book.studies.shared import map_counts, released_code
from tests.book.studies.known import Known, double, plain, record

of_gates = import_module("book.studies.bert_gates.measure")  # the package exports a function of that name
detector = import_module("book.studies.gate_detector.measure")
GATES, N = list(gates.GATES), 16


# ---- what maps carry


def test_records_are_read_by_place(monkeypatch):
    monkeypatch.setattr(controls, "load_rungs", lambda name, inputs, places: (name, places))
    name, places = controls.measure_carried(None)
    assert name == "bert-gates-weighted"
    assert (places["as trained"], places["contributions"], places["block"]) == (
        ("first", 0),
        ("first", 3),
        ("classes", 3),
    )
    assert (places["open, by contribution"], places["length of first"]) == (("weighted gates", 1), ("length of first",))
    covered = record(covered=np.array([[0.9, 0.75], [0.8, 1]]))
    monkeypatch.setattr(controls, "live_or_record", lambda *_, **__: (covered, ""))
    assert controls.measure_covered(None) == 0.75


def test_maps_of_the_classifier_have_a_gate_from_a_twentieth_on(monkeypatch):
    scores = np.zeros((2, 2, len(GATES)))
    scores[0, 0, 0], scores[0, 1, [1, 6]], scores[1, 0, 3] = 0.05, 0.2, 0.04
    scores[1, 1, 7], scores[1, 1, 0] = 0.9, 0.049  # a closed map has no pattern
    monkeypatch.setattr(controls, "live_or_record", lambda *_, **__: (record(gates=scores), ""))
    found = controls.measure_classifier(None)
    assert (found.patterned, found.composed, found.diagonals) == (0.5, 0.25, 0.2)


def measure_of(documents, **controls_) -> SimpleNamespace:
    """Return one measure, ``(document, layer)``, of the trained model and its controls."""
    of_kinds = {kind: np.array(documents) / (k + 1) for k, kind in enumerate(controls.KINDS)}
    return SimpleNamespace(documents=np.array(documents), by_kind=of_kinds, controls=controls_)


def test_the_sink_is_split_into_what_each_step_takes_away():
    rungs = {name: measure_of([[0.5, 0.7]]) for name in controls.CLASSES} | {
        "as trained": measure_of([[0.4, 0.8], [0.4, 0.4]]),
        "without the query bias": measure_of([[0.2, 0.3], [0.2, 0.3]]),
        "with centred queries": measure_of([[0.1, 0.15], [0.1, 0.05]]),
        "contributions": measure_of([[0.02, 0.04], [0.02, 0.04]]),
        "length of first": measure_of([[0.5, 0.25], [0.7, 0.25]]),
        "directional, by contribution": measure_of([[0.1, 0.2], [0.1, 0.2]]),
    }
    assert vars(controls.carried_numbers(rungs)) == {
        "first_lengths": "0.60, 0.25",
        "first_attention": "50 %",
        "first_contribution": "3 %",
        "columns_contribution": "15 %",
        "sink_semi_bias": "25 %",
        "sink_common": "15 %",
        "sink_content": "10 %",
    }
    table = controls.sink_table(rungs)
    assert table["layer 1"].tolist() == ["0.600", "0.300", "0.200", "0.100", "0.040", "0.250"]
    for name in controls.CLASSES:
        rungs[name].controls = {rung: np.array([k / 10]) for k, rung in enumerate(controls.LADDER)}
    classes = controls.class_table(rungs)
    assert classes[controls.KINDS[1]].tolist() == ["30"] * 5
    assert classes[list(controls.LADDER)[-1]].tolist() == [f"{10 * (len(controls.LADDER) - 1)}"] * 5


def sink_layer(b_Q) -> tuple[torch.Tensor, object]:
    """Return rows whose queries are all ``(20, 0)`` and a bias, with key 0 at ``(1, 0)`` and all others at 0."""
    x = torch.zeros(N, 3).double()
    x[:, 0], x[0, 1], x[:, 2] = 1, 1, 2
    x[0, 2] = 6
    shapes = {"W_Q": double([30, 0], [0, 0], [0, 0]), "W_K": double([0, 0], [1, 0], [0, 0])}
    values = {"W_V": double([0, 0], [0, 0], [1, 0]), "W_O": double([0, 1, 0], [0, 0, 0])}
    return x, plain(3, **shapes, **values, b_Q=double(b_Q, 0))


def test_columns_are_read_under_each_query_bias():
    x, layer = sink_layer(-30)
    found = recorded.read_layer(x, layer, double([-15, 0]))
    assert found["columns"].tolist() == pytest.approx([0, 1, 1, 0], abs=0.01)  # own, none, lent, centred
    assert (found["patterned"], found["composed"]) == (0, 0)
    assert found["gates"][GATES.index("closed")] == pytest.approx(1)
    assert found["entropy"] == pytest.approx(1)
    x, layer = sink_layer(0)
    found = recorded.read_layer(x, layer, double([-30, 0]))
    assert found["columns"].tolist() == pytest.approx([1, 1, 0, 0], abs=0.01)
    assert (found["patterned"], found["composed"]) == (1, 0)
    assert found["first of columns"] == pytest.approx(1)
    assert found["entropy"] < 0.01


def test_a_layer_is_read_as_the_mean_of_its_heads(monkeypatch):
    """Three heads: one with a column and a diagonal of a twentieth, one with a column, one with nothing."""
    scores = torch.zeros(3, len(GATES)).double()
    scores[0, [0, 2]], scores[1, 0], scores[2, GATES.index("closed")] = 0.05, 0.65, 0.9
    columns = double([0.1, 0, 0], [0.2, 0.3, 0], [0, 0, 0.6])
    read = []

    def read_gates(maps):
        read.append(maps)
        return SimpleNamespace(scores=scores * (1 if len(read) == 1 else 2), columns=columns)

    monkeypatch.setattr(recorded.gates, "read_gates", read_gates)
    # W_Q is none, and half of each row lies on key 0 in the first head, in the others all keys get as much
    layer = plain(2, heads=3, W_K=torch.eye(2), b_Q=double(0, 0))
    layer.b_Q[0] = double(2**0.5 * math.log(2), 0)
    found = recorded.read_layer(double([1, 0], [0, 1], [0, 1]), layer, double([0, 0], [0, 0], [0, 0]))
    assert read[0][0, 1].tolist() == pytest.approx([0.5, 0.25, 0.25])
    assert read[1][0, 1].tolist() == pytest.approx([1 / 3] * 3)
    assert found["gates"][0] == pytest.approx(0.7 / 3)
    assert (found["patterned"], found["composed"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert found["first of columns"] == pytest.approx(0.3 / 1.2)
    assert found["columns"].tolist() == pytest.approx([0.7 / 3, 1.4 / 3, 1.4 / 3, 1.4 / 3])
    assert found["entropy"] == pytest.approx((1.5 * math.log(2) / math.log(3) + 2) / 3)


def test_the_first_token_gets_attention_and_brings_little_or_much():
    x, layer = sink_layer(-30)
    found = recorded.measure_layer(x, layer)
    # own weights are equal; without the bias all is on key 0; what it brings is three times as long
    assert found["first"].tolist() == pytest.approx([1 / N, 1, 1 / N, 3 / (N + 2)], abs=1e-6)
    assert found["length of first"] == pytest.approx(3)
    assert found["classes"].tolist() == [0, 0, 0, 0, 1]
    assert found["weighted gates"].sum() == pytest.approx(1)
    x, layer = sink_layer(0)
    found = recorded.measure_layer(x, layer)
    assert found["classes"].tolist() == [1, 0, 0, 0, 0]
    assert found["weighted gates"][0] == pytest.approx(1, abs=0.01)
    x, layer = sink_layer(-30 + 2**0.5 * math.log(N - 1))  # half of the attention
    found = recorded.measure_layer(x, layer)
    assert found["first"][[0, 3]].tolist() == pytest.approx([0.5, 0.75])


def test_the_classes_of_a_layer_are_shares_of_its_heads():
    """Two heads see all keys alike; the third looks at one."""
    x = torch.randn(N, N, generator=torch.Generator().manual_seed(0)).double()
    layer = plain(N, heads=3, W_K=torch.linalg.inv(x), W_V=torch.linalg.inv(x), W_O=torch.eye(N))
    layer.W_Q[:] = 0
    layer.b_Q[2] = N**0.5 * 30 * torch.eye(N)[5].double()
    found = recorded.measure_layer(x, layer)
    assert found["classes"].tolist() == pytest.approx([1 / 3, 0, 0, 0, 2 / 3])
    assert found["first"][0] == pytest.approx(2 / 3 / N, abs=1e-6)


def test_classes_are_of_the_largest_kind():
    scores = torch.zeros(6, len(GATES))
    scores[0, 0], scores[1, [1, 2]], scores[2, [0, 3]] = 0.05, 0.03, 0.05  # .03 and .03 are .06 of diagonals
    scores[3, 4], scores[3, 0] = 0.3, 0.2
    scores[4, 4], scores[4, 0] = 0.2, 0.3
    assert [recorded.CLASSES[k] for k in recorded.classify(scores)] == [
        "vertical",
        "diagonal",
        "vertical and diagonal",
        "block",
        "vertical",
        "heterogeneous",
    ]


def test_a_sentence_is_read_layer_by_layer(monkeypatch):
    column, even = torch.zeros(1, 1, N, N), torch.full((1, 1, N, N), 1 / N)
    column[..., 2] = 1

    class Encoding(dict):
        def to(self, device):
            return self

    class Tokenizer:
        def __call__(self, text, return_tensors):
            return Encoding(input_ids=[[7, 8]])

        def convert_ids_to_tokens(self, ids):
            return [f"token {i}" for i in ids]

    visit = []

    def model(input_ids):
        for layer, maps in enumerate((column, even)):
            visit[0](layer, maps)

    monkeypatch.setattr(of_gates.checkpoints, "find", lambda name: SimpleNamespace(name="found"))
    monkeypatch.setattr(of_gates.pretrained, "tokenizer", lambda _: Tokenizer())
    monkeypatch.setattr(of_gates.pretrained, "load", lambda *_, **__: model)
    monkeypatch.setattr(of_gates.streaming, "visit_maps", visit.append)
    monkeypatch.setattr(of_gates.attention_hooks, "with_attention", lambda *_: nullcontext())
    found = of_gates.measure_sentence(SimpleNamespace(model="m", device="cpu"))
    assert (found.model, found.tokens) == ("found", ["token 7", "token 8"])
    assert found.maps.shape == (2, 1, N, N)
    assert found.scores[0, 0, 0] == pytest.approx(1)
    assert found.scores[1, 0, GATES.index("closed")] == pytest.approx(1)
    assert (found.cells[0, 0, :, 2] == 0).all()
    assert (found.smallest_weight, found.weights_for_each_near_one) == (0, 2 * N)


# ---- removal, census, ladder


def test_gates_matter_if_they_have_a_hundredth_and_more_effect_than_random_cells():
    effect = {name: Interval(k, k - 0.5, k + 0.5) for k, name in enumerate(sink.WAYS)}
    differences = {gate: Interval(0.1, -0.1, 0.3) for gate in GATES}
    differences["directional"] = differences["cluster"] = differences["instance"] = Interval(0.2, 0.1, 0.3)
    shares = dict.fromkeys(GATES, (0.2, 0.1)) | {"instance": (0.01, 0.9)}
    named, random = ({gate: Interval(value, 0, 1) for gate in GATES} for value in (0.7, 0.5))
    removal = sink.Removal(effect, {}, named, random, differences, shares)
    assert vars(sink.removal_numbers(removal)) == {
        "sink_deleted": 0,
        "sink_at_random": 1,
        "sink_renormalised": 2,
        "sink_scaled": 4,
        "removed_columns": 0.7,
        "removed_at_random": 0.5,
        "removed_difference": 0.2,
        "removed_difference_low": 0.1,
        "removed_difference_high": 0.3,
        "removed_more": "directional, cluster",
    }
    assert [span.value for span in removal.said().values()] == [0, 1, 2, 4]


def census(**ratios: float) -> ModelCensus:
    """Return a census of two heads and four texts with every ratio, a hundredth apart."""
    all_ratios = {name: Ratio(k / 100, 0, 1, 9) for k, name in enumerate(gate_census.RATIOS)}
    all_ratios |= {name: Ratio(value, 0, 1, 9) for name, value in ratios.items()}
    scores = np.zeros((1, 2, len(GATES)))
    scores[0, :, gate_census.OPEN], scores[0, :, gate_census.CLOSED] = [0.25, 0.75], [0.5, 0.75]
    return ModelCensus(all_ratios, {}, scores, scores, scores[0], np.array([30, 12, 50]), scores, scores, scores)


def test_the_census_is_written_in_per_cent():
    own = census(
        points_a_map=1.234, bias_correlation=0.456, bias_other=0.0, bias_chance=0.01234, patterned=float("nan")
    )
    classes = {name: [0.0, 0.0] for name in GATES}
    classes |= {
        "open": [0, 0.0012],
        "instance": [0.03, 0.001],
        "inverse directional": [0.02, 0.0005],
        "closed": [0, 0.9],
    }
    columns = [Interval(0.3, 0, 1), Interval(9, 9, 9), Interval(0.1, 0, 1)]
    found = gate_census.census_numbers(
        SimpleNamespace(
            trained=own, control=census(residual=0.66), by_length={"directional": columns}, class_shares=classes
        )
    )
    assert (found.texts, found.shortest, found.longest) == (3, 12, 50)
    assert (found.columns_shortest, found.columns_longest) == ("30 %", "10 %")
    assert (found.null_most, found.point_share, found.point_chance) == ("0.12 %", "5.00 %", "0.15 %")
    assert (found.open_best, found.control_closed, found.control_residual) == ("75 %", "62 %", "66 %")
    assert (found.points, found.follow, found.stray, found.chance) == ("1.23", "0.46", "+0.00", "1.2 %")
    assert found.patterned == gate_census.NOTHING
    place = list(gate_census.RATIOS).index
    of = {
        "composed": "composed",
        "end": "end_of_diagonal",
        "both": "both_of_either",
        "with_open": "open_with_either",
        "company": "in_company",
        "run": "run_covers",
        "short": "short_columns",
        "verticals": "short_verticals",
        "weak": "weak_points",
        "residual": "residual",
        "quiet": "residual_quiet",
        "near": "residual_near",
        "near_cells": "near_cells",
        "loud": "loud",
        "loud_below": "loud_below",
        "first": "columns_first",
        "first_all": "attention_first",
        "first_tokens": "tokens_first",
        "sep": "attention_separator",
        "top": "bias_top",
    }
    assert {field: getattr(found, field) for field in of} == {field: f"{place(name)} %" for field, name in of.items()}


class Census(Known):
    """A census of both models: the control's numbers are ten times the trained one's."""

    def __getitem__(self, name):
        return self.counts[name]


def test_a_census_is_of_the_trained_model_and_of_its_control(monkeypatch):
    values, counts, arrays = {}, {}, {}
    for prefix, factor in (("", 1), ("control_", 10)):
        values |= {
            prefix + name: Value(factor * k / 1000, 0.0, low=0.0, high=1.0, n=8)
            for k, name in enumerate(gate_census.RATIOS)
        }
        counts |= {f"{prefix}count_{name}": factor * k for k, name in enumerate(gate_census.COUNTS)}
        shares = np.full((1, 2, len(GATES)), factor / 100)
        by_text = np.full((9, len(GATES)), factor / 100)
        names = ("scores", "score_deviation", "null", "bias")
        arrays |= {f"{prefix}{name}": shares + k / 1000 for k, name in enumerate(names)}
        arrays |= {f"{prefix}by_text": by_text, f"{prefix}lengths": np.arange(9), f"{prefix}null_names": shares[0, 0]}
    result = Census(values=values, counts=counts, arrays=arrays)
    monkeypatch.setattr(gate_census, "live_or_record", lambda name, _: (result, name))
    found = gate_census.measure_census(SimpleNamespace(departs=False))
    assert found.source == "bert-gates-minilm"
    assert (found.trained.counts["maps"], found.control.counts["lines"]) == (0, 30)
    place = list(gate_census.RATIOS).index
    attention = place("attention_first") / 1000
    assert found.kind_shares["attention"][0] == attention
    assert found.kind_shares["attention, control"][0] == pytest.approx(10 * attention)
    assert found.summary["composed"].value == found.trained.ratios["composed"].value == place("composed") / 1000
    assert found.control.ratios["residual"].value == place("residual") / 100
    assert list(found.summary) == list(gate_census.SHOWN)
    assert found.class_shares["open"] == pytest.approx([0.01, 0.012, 0.1, 0.102])
    own = (found.trained.deviations, found.trained.shuffled_shares, found.trained.follows)
    assert [array.max() for array in own] == pytest.approx([0.011, 0.012, 0.013])
    assert found.trained.shuffled_names.shape == (len(GATES),)
    assert found.spans == ["0 to 2", "3 to 5", "6 to 8"]
    assert (found.follows.shape, found.scores["control"][0, 0, 0]) == ((18,), 0.1)
    computed = []
    monkeypatch.setattr(gate_census, "count_gates", lambda inputs: computed.append(inputs) or result)
    assert gate_census.measure_census(SimpleNamespace(departs=True)).source == "Computed just now."
    assert len(computed) == 1


def test_the_ladder_of_gates_is_told_in_means():
    def one(documents, sharp, large, permuted, random=0.0):
        rung = lambda value: np.array([[value - 0.01, value + 0.01]])  # noqa: E731
        others = {"random": rung(random), SHARP: rung(sharp), LARGE: rung(large), PERMUTED: rung(permuted)}
        return SimpleNamespace(documents=np.array([documents - 0.02, documents + 0.02]), controls=others)

    rungs = {
        "maps with a pattern": one(0.9, 0.81, 0.82, 0.83),
        "maps with two or more": one(0.5, 0.41, 0.42, 0.43),
        "columns, own": one(0.3, 0.21, 0, 0.22),
        "columns, none": one(0.1, 0, 0, 0.12),
        "columns, centred": one(0.05, 0.02, 0, 0),
        "columns, trained": one(0, 0.33, 0, 0),
        "diagonals": one(0.2, 0.01, 0.02, 0.03, 0.045),
        "clusters": one(0.15, 0.07, 0.02, 0.03),
        "first of columns": one(0.6, 0.01, 0.12, 0.03),
    }
    assert vars(controls.ladder_numbers(rungs)) == {
        "patterned_trained": "90 %",
        "composed_trained": "50 %",
        "patterned_sharp": "81 %",
        "composed_sharp": "41 %",
        "patterned_large": "82 %",
        "composed_large": "42 %",
        "patterned_permuted": "83 %",
        "composed_permuted": "43 %",
        "columns_trained_own": "30 %",
        "columns_trained_none": "10 %",
        "columns_trained_centred": "5 %",
        "columns_sharp": "21 %",
        "columns_sharp_centred": "2 %",
        "columns_sharp_lent": "33 %",
        "columns_permuted_own": "22 %",
        "columns_permuted_none": "12 %",
        "diagonals_trained": "20 %",
        "diagonals_most": "4.5 %",
        "clusters_trained": "15 %",
        "clusters_most": "7.0 %",
        "first_trained": "60 %",
        "first_most": "12.0 %",
    }


# ---- the detector


def records_of_the_detector() -> dict:
    kinds, drawn, patterns = len(KINDS), len(DRAWN), len(gates.PATTERNS)
    alarms, power = np.zeros((len(SIZES), kinds, patterns)), np.zeros((len(SIZES), drawn))
    alarms[1, KINDS.index(UNKIND[0]), 2] = 0.015  # a diagonal
    alarms[0, KINDS.index("band"), :] = 0.75  # structured rows are no rows of noise
    alarms[:, KINDS.index("band"), GATES.index("cluster")] = [0.75, 0.5, 0.25]
    alarms[2, KINDS.index(INDEPENDENT[3]), 5] = 0.02
    alarms[2, KINDS.index(UNKIND[1]), 4] = 0.3
    power[:, list(DRAWN).index("the paper's point, 1 % noise")] = [0.5, 0.6, 1]
    power[:, list(DRAWN).index("the paper's point, 10 % noise")] = [0.1, 0.2, 0.3]
    present = np.zeros((2, 3, len(GATES)))
    present[:, 0, 1:4], present[:, 2, 1:4] = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], 0.001
    present[:, :, GATES.index("cluster")] = [[0.5, 0.3, 0.1], [0.7, 0.3, 0.3]]
    present[:, 2, 0] = [0.4, 0.6]
    found, there = np.zeros((2, 3, 7)), np.zeros((2, 3, 7))
    found[0, :, 0], there[0, :, 0] = [1, 2, 3], 4
    false, absent = np.zeros((2, 3, 7)), np.zeros((2, 3, 7))
    false[0, 0, 1], absent[:, :, 1] = 3, 2
    there[1], there[0, :, 1:] = 1, 1
    maps = np.zeros((2, 3, 7))
    maps[..., 0] = 100
    confusion = np.zeros((2, 3, len(detector.LABELS), len(GATES)))
    confusion[0, 0, 0, 0], confusion[1, 2, 0, 0], confusion[0, 1, 7, 8] = 500, 300, 200
    shuffled = np.zeros((2, 4, 7))
    shuffled[0, :, 1], shuffled[1, :, 1], shuffled[0, :, 2] = [0.02, 0.04, 0.02, 0.04], 0.01, 0.03
    names = {f"named_{label}": k / 100 for k, label in enumerate(detector.LABELS, 90)}
    return {
        "gate-detector-calibration": record(alarms=alarms, power=power, covered=np.zeros((3, 2))),
        "gate-detector-own-scores": record(shares=present / 2, present=present),
        "gate-detector-cost": record(
            sizes=np.array([512, 2048]), seconds=np.array([0.0123, 2.345]), megabytes=np.array([9, 1234.6])
        ),
        "gate-detector-specimens": record(
            confusion=confusion,
            mixed_found=found,
            mixed_present=there,
            mixed_false=false,
            mixed_absent=absent,
            mixed_maps=maps,
            shuffled=shuffled,
            **names,
        ),
    }


def test_the_detectors_page_is_read_off_its_records(monkeypatch):
    records = records_of_the_detector()
    monkeypatch.setattr(detector, "choose_inputs", lambda device: SimpleNamespace(device=device))
    monkeypatch.setattr(detector, "live_or_record", lambda name, _, recompute: (records[name], f"of {name}"))
    monkeypatch.setattr(detector, "read_causal_gates", lambda device: {"open": (7, 8)})
    found = detector.measure()
    assert vars(found.numbers) == {
        "line_alarms": "1.5 %",
        "other_alarms_kind": "2.0 %",
        "other_alarms_unkind": "30 %",
        "lines_as_they_are": 60,
        "lines_shuffled": 0,
        "clusters_as_they_are": "60.0 %",
        "clusters_keys_shuffled": "30.0 %",
        "clusters_shuffled": "20.0 %",
        "columns_shuffled": "50.0 %",
        "bands_as_clusters": "50 %",
        "calibrated": "16, 64, 128",
        "calibration_maps": COUNT,
        "paper_point": "70 %",
        "paper_point_noisy": "20 %",
        "reader_maps": "1,600",
        "named_cluster": "94 %",
        "named_instance": "95 %",
        "named_inverse_directional": "96 %",
        "named_closed": "97 %",
        "shuffled_most": "2.0 %",
        "shuffled_most_at_a_size": "3.0 %",
        "cost_small": 12,
        "cost_large": 2.3,
        "cost_ratio": 191,
        "cost_mb": 1235,
    }
    assert found.cost_source == "of gate-detector-cost"
    specimens = found.specimens
    assert specimens.confusion[0, 0] == 800
    assert specimens.recall["directional"].tolist() == [0.5, 0]  # 6 of 12
    assert specimens.false_alarms == {"open": 0.25}  # 3 of 12; no other gate was absent
    assert (specimens.accuracy["closed"], specimens.causal) == (0.97, {"open": (7, 8)})
    assert found.own.shares[0, 2, 0] == 0.2


def test_rates_of_alarms_are_over_all_sizes(monkeypatch):
    records = records_of_the_detector()
    monkeypatch.setattr(detector, "live_or_record", lambda name, _, recompute: (records[name], name))
    found = detector.measure_calibration(None)
    assert found.source == "gate-detector-calibration"
    rate = found.rate("band", "cluster")
    assert (rate.value, 0.4 < rate.low < 0.5 < rate.high < 0.6) == (0.5, True)
    assert found.of(("band",), ("cluster", "open")).tolist() == [[[0.75, 0.75]], [[0.5, 0]], [[0.25, 0]]]
    worst = found.worst()
    assert (worst.loc["band", "cluster"], worst.loc[UNKIND[0], "backward"]) == (75, 1.5)
    assert list(worst.index) == [*INDEPENDENT, *UNKIND, "sharp low rank", "band"]
    assert found.found().loc["the paper's point, 1 % noise"].tolist() == [50, 60, 100]


def test_shuffling_keys_moves_a_diagonal_and_leaves_a_column(monkeypatch):
    x = torch.eye(N).double()
    diagonal = plain(N, W_Q=60 * torch.eye(N).roll(1, 1), W_K=torch.eye(N))  # each query looks at the next key
    column = plain(N, W_K=torch.eye(N), b_Q=60 * torch.eye(N)[3].double())
    turned = torch.arange(N).flip(0)[None]
    orders = iter([turned, turned, turned, turned.roll(4, 1)])
    monkeypatch.setattr(calibration, "draw_orders", lambda *_: next(orders))
    found = calibration.read_orders(x, diagonal, None)
    ahead = [GATES.index("forward"), GATES.index("backward")]
    assert found[:, 0, ahead].amax(-1).tolist() == pytest.approx([1, 0, 1], abs=0.1)  # turned twice it is one again
    found = calibration.read_orders(x, column, None)
    assert found[:, 0, 0].tolist() == pytest.approx([1, 1, 1], abs=0.01)
    read, orders = [], iter([turned, turned])
    reading = SimpleNamespace(scores=torch.zeros(1, len(GATES)))
    monkeypatch.setattr(calibration, "draw_orders", lambda *_: next(orders))
    monkeypatch.setattr(calibration.gates, "read_gates", lambda maps: read.append(maps) or reading)
    column.b_Q[0] = N**0.5 * math.log(N - 1) * torch.eye(N)[3]
    calibration.read_orders(x, column, None)
    assert read[0][0, 7, [3, 4]].tolist() == pytest.approx([1 / 2, 1 / 2 / (N - 1)])  # as much as all others
    assert read[1][0, 7, [N - 4, 3]].tolist() == pytest.approx([1 / 2, 1 / 2 / (N - 1)])


def test_causal_gates_are_named_rightly_or_noise(monkeypatch):
    drawn = []

    def draw(positions, present, noise, generator, causal):
        drawn.append((positions, tuple(present), causal))
        truth = np.zeros(len(GATES))
        truth[GATES.index(present[0] if present else "closed")] = 0.05 if len(drawn) % 2 else 0.04
        return SimpleNamespace(truth=truth, present=present)

    def read(whole, causal, device):
        assert causal
        names = ["open", "residual", "closed", "directional"]
        return [(one, None, names[k % 4]) for k, one in enumerate(whole)]

    monkeypatch.setattr(detector, "draw", draw)
    monkeypatch.setattr(detector, "read_specimens", read)
    found = detector.read_causal_gates(torch.device("cpu"))
    half = len(detector.HELD_OUT) * detector.CAUSAL_DRAWS // 2  # that are not cut off
    assert list(found) == list(detector.CAUSAL_GATES)
    assert found["open"] == (math.ceil(half / 4), half)
    assert found["closed"] == (half // 2, half)
    assert found["backward"] == (0, half)
    assert set(drawn[:2]) == {(64, ("directional",), True)}
    assert drawn[-1] == (64, (), True)


# ---- counts and entropies of maps


def test_points_are_counted_with_those_that_are_weak():
    point, row = GATES.index("instance"), GATES.index("inverse directional")
    cells = torch.full((2, 3, 3), GATES.index("closed"))
    cells[0, 0, 1], cells[0, 2, 2], cells[1, 1, 0], cells[1, 1, 1], cells[1, 2, 2] = point, point, row, row, row
    maps = torch.full((2, 3, 3), 0.25)
    maps[0, 0, 1] = 0.5
    reading = SimpleNamespace(cells=cells, score=lambda name: double(0.5, 0.125) if name == "instance" else None)
    found = {name: value.item() for name, value in map_counts.measure_points(maps, reading).items()}
    assert found == {"points": 2, "points_weak": 1, "point_mass": 0.625, "rows": 2, "row_points": 3}
    assert map_counts.correlate(
        double([1, 2, 4], [1, 1, 1]), double([-2, -4, -8], [1, 2, 3])
    ).tolist() == pytest.approx([-1, 0])


def test_entropies_of_ideal_gates_are_known(monkeypatch):
    found = released_code.measure_gates()
    assert list(found) == ["closed", "directional", "open", "backward", "instance", "cluster"]
    assert found["closed"].rows == pytest.approx(1)
    assert max(found[name].rows for name in ("directional", "open")) < 1e-9
    rows = released_code.ROWS
    assert found["instance"].rows == pytest.approx((rows - 1) / rows)  # one row is sharp, all others even
    assert found["closed"].whole == pytest.approx(0)  # one value only
    kept = (released_code.TOKENS - 1) ** 2 / rows**2  # all tokens but the last one; the rest is zeros
    assert found["closed"].blanked == pytest.approx(-kept * math.log(kept) - (1 - kept) * math.log(1 - kept))
    noise = released_code.measure_noise()
    assert list(noise) == list(released_code.DEVIATIONS)
    assert 1 > noise[0.01].rows > noise[0.5].rows > noise[2.0].rows > 0.5
    # of Gaussian scores with deviation s, a row lies s^2 / 2 nats below log n
    assert (1 - noise[0.1].rows) * math.log(rows) == pytest.approx(0.1**2 / 2, rel=0.1)
    assert (1 - noise[1.0].rows) * math.log(rows) == pytest.approx(1 / 2, rel=0.1)


def test_reading_a_map_takes_the_least_of_its_times(monkeypatch):
    """The clock does not start at 0, and two maps are read three times each."""
    clock, read = iter([100, 107, 110, 112, 120, 125, 200, 230, 300, 340, 400, 421]), []
    monkeypatch.setattr(cost, "time", SimpleNamespace(process_time=lambda: next(clock)))
    monkeypatch.setattr(cost, "a_map", lambda n: n)
    monkeypatch.setattr(cost.gates, "read_gates", read.append)
    peak = lambda command, **_: SimpleNamespace(stdout=f"{512 * int(command[-1])}\n")  # noqa: E731
    monkeypatch.setattr(cost, "subprocess", SimpleNamespace(run=peak))
    seconds, megabytes = cost.measure((4, 6), repeats=3)
    assert (seconds.tolist(), megabytes.tolist()) == ([2, 21], [2, 3])
    assert read == [4] * 3 + [6] * 3
