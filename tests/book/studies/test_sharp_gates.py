"""The chapter on gates as a whole, and its gates and controls where something in them is wrong on purpose."""

import math
from importlib import import_module
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics.intervals import Interval
from book.studies.bert_gates import controls, experiments, findings, ideal_gates, printed_gates, query_bias, sink
from book.studies.bert_gates.controls import LARGE, PERMUTED, SHARP
from book.studies.shared.documents import DocumentLadder, Rungs
from tests.book.studies.known import double, record

chapter = import_module("book.studies.bert_gates.measure")  # the package exports a function of that name
N = ideal_gates.POSITIONS
VALUES = torch.randn(N, 5, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


# ---- the chapter


def test_every_part_of_the_chapter_is_measured_on_its_own_inputs(monkeypatch):
    """Each part answers with its name and what it was handed."""
    asked = []
    choose = lambda model, *, own, texts, device, families: asked.append((model, own, texts, device, families)) or "in"  # noqa: E731
    monkeypatch.setattr(chapter, "choose_inputs", choose)
    monkeypatch.setattr(chapter, "measure_sentence", lambda given: SimpleNamespace(maps="maps", cells="cells"))
    of_inputs = ("census", "rungs", "carried", "removal", "objections", "covered", "classifier")
    for name in of_inputs:
        monkeypatch.setattr(chapter, f"measure_{name}", lambda given, name=name: (name, given))
    for name in ("gallery", "census_numbers", "ladder_numbers", "carried_numbers", "removal_numbers"):
        monkeypatch.setattr(chapter, name, lambda *given, name=name: (name, *given))
    monkeypatch.setattr(chapter, "measure_bias_exchange", lambda given: ("exchange", ("numbers", given)))
    monkeypatch.setattr(chapter, "measure_ablation", lambda *given: (("ablation", *given), "its numbers"))
    monkeypatch.setattr(chapter, "measure_ideal_gates", lambda: "ideal")
    monkeypatch.setattr(chapter, "read_nearest", lambda given: ("nearest", given))
    found = chapter.measure("another", "texts", "cpu")
    assert asked == [("another", "minilm", "texts", "cpu", ("bert", "gpt2"))]
    assert (found.inputs, found.ideal) == ("in", "ideal")
    for name in of_inputs:
        assert getattr(found, name) == (name, "in")
    census = ("census", "in")
    assert found.gallery == ("gallery", census, "maps", "cells")
    assert found.census_numbers == ("census_numbers", census)
    assert found.ladder_numbers == ("ladder_numbers", ("rungs", "in"))
    assert found.carried_numbers == ("carried_numbers", ("carried", "in"))
    assert found.removal_numbers == ("removal_numbers", ("removal", "in"))
    assert (found.exchange, found.exchange_numbers) == ("exchange", ("numbers", "in"))
    assert (found.ablation, found.ablation_numbers) == (("ablation", "in", census), "its numbers")
    assert found.nearest == ("nearest", "in")


# ---- ideal gates, one of them wrong


def one_row_off(build, shift, row, key):
    """Let the diagonal of one shift look at another key in one row."""

    def built(n, by):
        gate = build(n, by)
        if by == shift:
            gate[row] = 0
            gate[row, key] = 1
        return gate

    return built


def apart(a, b):
    return (VALUES[a] - VALUES[b]).abs().max().item()


def test_one_wrong_diagonal_of_many_is_told(monkeypatch):
    right = gates.backward
    monkeypatch.setattr(ideal_gates.gates, "backward", one_row_off(right, 4, 9, 2))  # 7 back where it is 4
    found = ideal_gates.measure_backward(VALUES)
    assert found.output_error == pytest.approx(apart(2, 5))
    at = found.j.tolist().index(5)
    assert (found.nearest[at], found.farthest[at]) == (4, 7)
    assert (np.delete(found.nearest, at) == np.delete(found.farthest, at)).all()
    ahead = ideal_gates.measure_forward(VALUES)
    assert (ahead.output_error < 1e-12, ahead.flip_error) == (True, 1)
    monkeypatch.setattr(ideal_gates.gates, "backward", right)
    monkeypatch.setattr(ideal_gates.gates, "forward", one_row_off(gates.forward, 4, 2, 9))
    ahead = ideal_gates.measure_forward(VALUES)
    assert (ahead.output_error, ahead.flip_error) == (pytest.approx(apart(9, 6)), 1)


def test_diagonals_are_followed_for_every_shift_of_two_sizes():
    ahead, back = ideal_gates.measure_forward(VALUES), ideal_gates.measure_backward(VALUES)
    assert list(zip(ahead.n, ahead.j)) == [(12, j) for j in range(2, 12)] + [(13, j) for j in range(2, 13)]
    assert back.j.tolist() == list(range(2, 12))
    # printed: from (j, 1) to (n, n - j), and from (1, j) to (j, n)
    assert back.rows_down.tolist() == [12 - j for j in back.j]
    assert back.columns_right.tolist() == [11 - j for j in back.j]
    assert ahead.rows_down.tolist() == [j - 1 for j in ahead.j]
    assert ahead.columns_right.tolist() == [n - j for n, j in zip(ahead.n, ahead.j)]


def test_a_closed_gate_in_the_place_of_a_column_is_far_from_it(monkeypatch):
    monkeypatch.setattr(ideal_gates, "column_gate", lambda: gates.closed(N))
    found = ideal_gates.measure_column(VALUES)
    assert (found.form_error, found.entropy) == (pytest.approx(11 / 12), pytest.approx(math.log(12)))
    assert found.output_error == pytest.approx((VALUES.mean(0) - VALUES[4]).abs().max().item())


def test_a_random_map_has_less_entropy_than_a_closed_gate_in_every_row():
    draws = ideal_gates.draw()
    found = ideal_gates.measure_closed(draws)
    rows = [-sum(p * math.log(p) for p in row) for row in draws.attention.tolist()]
    assert found.other_entropy == pytest.approx(max(rows))
    off = (draws.values.mean(0) - draws.values[ideal_gates.KEYS[1]]).abs().max().item()
    assert found.instance_difference == pytest.approx(off)


def test_a_mixture_gains_least_entropy_in_one_row():
    draws = ideal_gates.draw()
    found = ideal_gates.measure_mixture(draws)
    gains = []
    for row in range(N):
        column, block, diagonal = draws.weights[:, row, 0].tolist()
        mixed = dict.fromkeys(range(N), 0.0)
        mixed[4] += column
        mixed[row] += diagonal
        keys, parts = (range(2, 7), math.log(5)) if row in range(1, 6) else (range(N), math.log(N))
        for key in keys:
            mixed[key] += block / len(keys)
        gains.append(-sum(p * math.log(p) for p in mixed.values() if p) - block * parts)
    assert found.entropy_gain == pytest.approx(min(gains))


def test_a_block_that_is_closed_is_off_by_what_its_rows_are(monkeypatch):
    monkeypatch.setattr(ideal_gates, "block_gate", lambda: gates.closed(N))
    found = ideal_gates.measure_block(VALUES)
    means = (VALUES.mean(0) - VALUES[2:7].mean(0)).abs().max().item()
    assert found.output_error == pytest.approx(means)
    assert found.rescaled_error == found.lines_error == pytest.approx(1 / 5 - 1 / 12)
    assert found.printed_output_error < 1e-12


def test_an_inverse_gate_that_is_closed_is_off_by_what_its_row_is(monkeypatch):
    monkeypatch.setattr(ideal_gates, "inverse_gate", lambda: gates.closed(N) / 2)
    found = ideal_gates.measure_inverse(VALUES)
    assert (found.entries, found.ones_row_sum) == (N, N)
    assert found.row_sum_error == pytest.approx(0.5)
    assert found.other_rows_error == pytest.approx(1 / 24)
    mean = VALUES[[0, 2, 9]].mean(0)
    assert found.output_error == pytest.approx((VALUES.mean(0) / 2 - mean).abs().max().item())
    assert found.instances_error == pytest.approx(1 / 3 - 1 / 24)
    assert found.one_key_error < 1e-12


# ---- gates as they are printed


def test_printed_gates_of_two_to_six_positions_are_counted():
    found = printed_gates.measure_printed_gates()
    squares = [n * n for n in range(2, 7)]
    assert found.gates == {
        "directional": 2 + 3 + 4 + 5 + 6,
        "open": 5,
        "backward": 1 + 2 + 3 + 4 + 5,
        "forward": 1 + 2 + 3 + 4 + 5,
        "cluster": 1 + 5 + 14 + 30 + 55,  # blocks of every width from 2 on, at every place
        "instance": sum(squares),
        "closed": 5,
    }
    assert found.all == 20 + 5 + 15 + 15 + 105 + 90 + 5
    assert found.ranks == {
        "directional": [1],
        "open": [2, 3, 4, 5, 6],
        "backward": [2, 3, 4, 5, 6],
        "forward": [2, 3, 4, 5, 6],
        "cluster": [1, 2],
        "instance": [2],
        "closed": [1],
    }
    assert (found.lines, found.printed_lines, found.instances) == (0, 105, 0)
    assert found.against_rules["cluster"] == 105


def test_sets_of_keys_are_counted_that_are_no_mean_of_instances(monkeypatch):
    sets = [keys for size in (2, 3, 4) for keys in combinations(range(1, 6), size)]
    assert [cells for _, cells in printed_gates.inverse_gates(5, row=2)] == [
        [(2, key) for key in keys] for keys in sets
    ]
    assert printed_gates.count_wrong_compositions(5) == 0
    alike = np.ones((5, 3), dtype=int).astype(object)
    assert printed_gates.count_other_side(5, alike) == sum(map(len, sets))  # all values are the mean
    monkeypatch.setattr(printed_gates, "written", lambda n, cells: printed_gates.uniform(n))
    assert printed_gates.count_wrong_compositions(5) == len(sets)


def test_outputs_that_are_the_mean_whatever_the_gate_are_counted(monkeypatch):
    """All values are alike, so every instance gate gives the mean of all, and of any keys."""
    monkeypatch.setattr(printed_gates, "draw_values", lambda n: np.full((n, 2), 7).astype(object))
    found = printed_gates.measure_printed_gates()
    keys = sum(size * math.comb(n, size) for n in range(2, 7) for size in range(2, n))
    assert found.other_side == {"closed": 90, "inverse directional": keys}
    assert not any(found.wrong_outputs.values())


def test_printed_outputs_that_are_wrong_are_counted_but_for_clusters(monkeypatch):
    monkeypatch.setattr(printed_gates, "expected_output", lambda name, values, labels: -values)
    found = printed_gates.measure_printed_gates()
    assert found.wrong_outputs == found.gates
    right = dict.fromkeys(found.gates, "expected")
    monkeypatch.setattr(printed_gates, "expected_output", lambda name, *_: None if name == "closed" else right)
    assert printed_gates.measure_printed_gates().wrong_outputs["closed"] == 0


def test_values_are_drawn_from_the_seed_of_their_number():
    found = printed_gates.draw_values(4)
    assert found.shape == (4, 3)
    assert found.tolist() == np.random.default_rng(4).integers(-1_000_000, 1_000_000, (4, 3)).tolist()


# ---- removal, controls, biases


def removal(**spans) -> sink.Removal:
    """Return effects of one gate, and of the sink by way: the other effects lie from 0.4 on."""
    effects = {way: Interval(0.5 + k / 10, 0.4 + k / 10, 0.6 + k / 10) for k, way in enumerate(sink.WAYS)}
    shares = {way: k / 100 for k, way in enumerate(sink.WAYS)}
    named, random, difference = ({"open": Interval(k, k - 0.25, k + 0.25)} for k in (1.0, 2.0, 3.0))
    return sink.Removal(effects | spans, shares, named, random, difference, {"open": (0.123, 0.456)})


def test_effects_of_a_removal_stand_in_their_tables():
    table = removal().sink_table()
    assert table.loc[sink.AT_RANDOM].tolist() == ["1.0%", "0.600 [0.500, 0.700]"]
    assert list(table.index) == list(sink.WAYS)
    assert removal().gate_table().loc["open"].tolist() == [
        "12.3%",
        "45.6%",
        "1.000 [0.750, 1.250]",
        "2.000 [1.750, 2.250]",
        "3.000 [2.750, 3.250]",
    ]


@pytest.mark.parametrize(("high", "holds"), [(0.49, True), (0.5, False), (0.51, False)])
def test_the_sink_turns_less_than_the_least_of_all_other_ways(high, holds):
    measured = SimpleNamespace(removal=removal(**{sink.DELETED: Interval(0.1, 0, high)}))
    assert findings.sink_is_a_volume_control(measured) is holds


def test_the_row_of_the_viewer_is_read_and_a_tenth_of_its_sink_is_left_out():
    row = sink.one_row(record(weights=[0.75, 0.25], lengths=[1, 2], tokens='["a", "b"]', query="b"))
    assert (row.weights.tolist(), row.lengths.tolist(), row.tokens, row.query) == (
        [0.75, 0.25],
        [1, 2],
        ["a", "b"],
        "b",
    )
    assert row.start() == {"way": "out", "amount": 10}


def ladder(documents, **rungs) -> DocumentLadder:
    return DocumentLadder(np.array(documents), {rung: np.array(values) for rung, values in rungs.items()})


def test_classes_of_maps_are_means_over_layers_and_over_seeds():
    """Two layers and two seeds; class k of 5 has 10 k in a hundred on average, and 3 less in a control."""
    names, carried = controls.CLASSES, {}
    for k, name in enumerate(names):
        of_kinds = {kind: np.array([0.1 * k - 0.05, 0.1 * k + 0.05]) for kind in controls.KINDS}
        rung = np.array([[0.1, 0.2], [0.0, 0.1]]) + 0.1 * k - 0.13
        carried[name] = SimpleNamespace(by_kind=of_kinds, controls=dict.fromkeys(controls.LADDER, rung))
    table = controls.class_table(carried)
    assert list(table.index) == list(names)
    for kind in controls.KINDS:
        assert table[kind].tolist() == ["0", "10", "20", "30", "40"]
    for rung in controls.LADDER:
        assert table[rung].tolist() == ["-3", "7", "17", "27", "37"]


def test_what_the_first_token_gets_is_parted_by_layer():
    """Two documents, two layers; the second layer has 1/2, of which 3/8 stay without the bias and 1/8 once centred."""
    means = dict(zip(experiments.FIRST, ([0.25, 0.5], [0.2, 0.375], [0.1, 0.125], [0.02, 0.04]), strict=True))
    means["length of first"] = [2.0, 3.0]
    rungs = {
        name: SimpleNamespace(documents=np.array([[a - 0.01, b + 0.01], [a + 0.01, b - 0.01]]))
        for name, (a, b) in means.items()
    }
    table = controls.sink_table(rungs)
    assert table["layer 1"].tolist() == ["0.500", "0.125", "0.250", "0.125", "0.040", "3.000"]
    assert table["layer 0"].tolist() == ["0.250", "0.050", "0.100", "0.100", "0.020", "2.000"]


def test_shares_stand_beside_the_ranges_of_two_controls():
    names = ("maps with a pattern", "columns", "maps with two or more", "diagonals", "clusters")
    measures = {}
    for k, name in enumerate(names):
        rungs = {SHARP: [[0.25 + k, 0.75 + k], [0.5 + k, 1.5 + k]], PERMUTED: [[2.0 + k, 3 + k], [1 + k, 2 + k]]}
        measures[name] = ladder([[0.25 + k, 0.5 + k], [0.5 + k, 0.75 + k]], **rungs)
    found = controls.beside(Rungs("", measures))
    words = ["maps with any gate", "attention on columns", "maps with two gates or more"]
    assert list(found) == [*words, "attention on diagonals", "attention on clusters"]
    for k, (whole, ranges) in enumerate(found.values()):
        assert whole.value == 0.5 + k
        # documents of means 3/8 and 5/8: 12.706 standard errors of 1/8
        assert whole.high - whole.value == pytest.approx(12.706 / 8, abs=1e-3)
        assert ranges == {"random weights as large": (0.5 + k, 1 + k), "trained weights shuffled": (1.5 + k, 2.5 + k)}
    assert LARGE not in found


def test_diagonals_of_the_ladder_are_three_gates_together(monkeypatch):
    asked = []
    measures = {name: ladder([[2.0**k]], one=[[3.0**k]]) for k, name in enumerate(("open", "backward", "forward"))}
    monkeypatch.setattr(controls, "load_rungs", lambda *given: asked.append(given) or Rungs("", measures))
    found = controls.measure_rungs("inputs")["diagonals"]
    assert (found.documents.item(), found.controls["one"].item()) == (7, 13)
    (name, inputs, places) = asked[0]
    assert (name, inputs) == ("bert-gates-ladder", "inputs")
    index = gates.GATES.index
    assert (places["columns"], places["clusters"]) == (("gates", index("directional")), ("gates", index("cluster")))
    assert (places["columns, own"], places["columns, centred"]) == (("columns", 0), ("columns", 3))


def test_objections_are_held_to_their_tolerances(monkeypatch):
    """One control and one document; a sentence that stays where it is."""
    monkeypatch.setattr(controls.checkpoints, "find", lambda _: None)
    monkeypatch.setattr(controls.pretrained, "tokenizer", lambda _: None)
    network = SimpleNamespace(double=lambda: "in float64")
    monkeypatch.setattr(controls.pretrained, "load", lambda *_, control_seed=None, device: network)
    asked = []
    documents = lambda each=None: asked.append(each) or [SimpleNamespace(text="one")]  # noqa: E731
    monkeypatch.setattr(controls, "load_documents", documents)
    drawn = [SimpleNamespace(network=3.0), SimpleNamespace(network=4.0)]
    monkeypatch.setattr(controls, "make_controls", lambda *_, rungs: asked.append(rungs) or drawn)
    monkeypatch.setattr(controls, "columns_of", lambda of, _, texts, typed: (of + typed, of - typed))
    states = torch.stack([double([1, 0], [1, 0]), double([3, 4], [3, 4])])
    layers = SimpleNamespace(encoder_layers=lambda: [], plain_layers=lambda: ["first", "second"])
    monkeypatch.setattr(controls, "load", lambda _: layers)
    monkeypatch.setattr(controls.extraction, "hidden_states", lambda *_: [states])
    monkeypatch.setattr(controls, "run_without", lambda x, *_: (x, None))
    monkeypatch.setattr(controls, "rms_lengths", lambda layer, rows: (layer, *(x.sum().item() for x in rows)))

    def read_maps(of, rows, due=None):
        assert torch.equal(rows[0], states)
        if of is network:
            return {"entropy": np.array([0.5, 0.25])}
        assert due == [("first", 2), ("second", 14)]  # MiniLM's rows, layer by layer
        return {"columns": of, "patterned": 2 * of, "entropy": np.array([of, 1.0])}

    monkeypatch.setattr(controls, "read_maps", read_maps)
    found = controls.try_objections(torch.device("cpu"))
    assert asked == [1, (SHARP,), None]
    assert found.arrays["columns"].tolist() == [[4, 3], [5, 4]]
    assert found.arrays["patterned"].tolist() == [[2, 3], [3, 4]]
    assert found.arrays["held"].tolist() == pytest.approx([1 - 3 / 5])
    assert found.arrays["columns as long"].tolist() == [3, 4]
    assert found.arrays["patterned as long"].tolist() == [6, 8]
    assert found.arrays["entropy as long"].tolist() == [[3, 1], [4, 1]]
    assert found.arrays["entropy of MiniLM"].tolist() == [0.5, 0.25]
    as_long = {"columns as long": 0.02, "patterned as long": 0.02, "entropy as long": 0.02}
    assert (
        found.tolerances == {"columns": 0.01, "patterned": 0.02, "held": 0.0001, "entropy of MiniLM": 0.005} | as_long
    )


def test_exchanged_biases_are_held_to_their_tolerances_and_few_texts_have_no_bounds(monkeypatch):
    directional = gates.GATES.index("directional")
    layers = [SimpleNamespace(b_Q=torch.ones(2, 3))]
    monkeypatch.setattr(query_bias, "load", lambda model: SimpleNamespace(layers=layers))
    scores = np.zeros((3, 3, 1, 2, len(gates.GATES)))
    scores[1, 0, 0, 1, directional] = 0.5  # one map of one text is mostly directional
    exchange = lambda model, tokenizer, passages, biases: scores[:, : len(biases)]  # noqa: E731
    monkeypatch.setattr(query_bias, "exchange", exchange)
    found = query_bias.survey("trained", "control", None, [])
    assert (found.values["maps_mostly"].value, found.values["maps_mostly"].tolerance) == (1, 20)
    own, mostly = found.values["columns_own"], found.values["mostly_own"]
    assert (own.value, own.tolerance, own.n) == (pytest.approx(0.25 / 3, abs=1e-9), 0.01, 3)
    # texts of 0, 1/4 and 0: 4.3027 standard errors of 1/12
    assert (own.low, own.high) == (pytest.approx(-0.2752, abs=1e-3), pytest.approx(0.4419, abs=1e-3))
    assert (mostly.value, mostly.n, mostly.tolerance, math.isnan(mostly.low)) == (0.5, 1, 0.01, True)
    none = query_bias._value(np.zeros(0))
    assert (math.isnan(none.value), none.n) == (True, 0)
    assert found.tolerances == {"scores": 0.02, "control_scores": 0.02}


def test_gates_of_documents_are_held_to_two_hundredths(monkeypatch):
    monkeypatch.setattr(experiments.checkpoints, "find", lambda _: None)
    monkeypatch.setattr(experiments.pretrained, "tokenizer", lambda _: None)
    monkeypatch.setattr(experiments, "survey_documents", lambda measure, **how: how)
    for survey in (experiments.measure_ladder, experiments.weigh_maps):
        assert survey("cpu") == {"each_of_controls": 1, "device": "cpu", "tolerance": 0.02}
