"""The study of gates on inputs whose answer is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics.intervals import FEWEST
from book.publish.records import Value
from book.studies.bert_gates import gate_census, ideal_gates, interventions
from book.studies.bert_gates.gate_census import CLOSED, ModelCensus, Ratio
from tests.book.studies.known import Known, hand_over

N = ideal_gates.POSITIONS
VALUES = torch.randn(N, 5, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def test_ideal_gates_are_what_their_formulas_say():
    column, opened = ideal_gates.measure_column(VALUES), ideal_gates.measure_open(VALUES)
    assert (column.rank, column.output_rank, opened.rank, opened.output_rank, opened.values_rank) == (1, 1, N, 5, 5)
    assert max(column.form_error, column.entropy, column.output_error, opened.output_error, opened.entropy) < 1e-12
    back, ahead = ideal_gates.measure_backward(VALUES), ideal_gates.measure_forward(VALUES)
    assert back.nearest.tolist() == back.farthest.tolist() == [j - 1 for j in back.j]
    assert back.last_column.tolist() == [N + 1 - j for j in back.j]
    # N + 1 - j rows of the diagonal and one that is the mean of all
    assert back.ranks.tolist() == [min(N, N + 2 - j) for j in back.j]
    assert (back.few_rows_rank, back.long_output_rank) == (3, 64)
    assert max(back.output_error, ahead.output_error, ahead.flip_error) < 1e-12
    assert ahead.last_row.tolist() == [n + 1 - j for n, j in zip(ahead.n, ahead.j, strict=True)]


def test_a_block_as_printed_has_too_much_by_one_key():
    found = ideal_gates.measure_block(VALUES)
    assert found.printed_row_sums.tolist() == pytest.approx([5 / 4] * 5)
    assert max(found.rescaled_error, found.output_error, found.printed_output_error, found.lines_error) < 1e-12


def test_gates_of_one_row_leave_the_others_as_they_are():
    instance, inverse = ideal_gates.measure_instance(VALUES), ideal_gates.measure_inverse(VALUES)
    assert (instance.rank, instance.rows_without_entropy, instance.rows_of_largest_entropy) == (2, 1, N - 1)
    assert instance.output_error < 1e-12
    off = (VALUES.mean(0) - VALUES[ideal_gates.QUERY]).abs().max().item()  # row 2 is a mean, and not v of the query
    assert instance.swapped_difference == pytest.approx(off)
    assert (inverse.entries, inverse.ones_row_sum) == (3, 3)
    errors = ("row_sum_error", "other_rows_error", "output_error", "instances_error", "one_key_error")
    assert max(getattr(inverse, name) for name in errors) < 1e-12
    three = VALUES[list(ideal_gates.KEYS)]
    assert inverse.instance_difference == pytest.approx((three[1] - three.mean(0)).abs().max().item())


def test_another_map_has_another_output_than_the_instance_gate(monkeypatch):
    """A closed gate mixes all values, also in the row that should be one value."""
    monkeypatch.setattr(ideal_gates, "instance_gate", lambda: gates.closed(N))
    found = ideal_gates.measure_instance(VALUES)
    assert found.output_error == pytest.approx((VALUES.mean(0) - VALUES[ideal_gates.KEYS[1]]).abs().max().item())
    assert (found.rank, found.rows_without_entropy, found.rows_of_largest_entropy) == (1, 0, N)


def test_a_closed_gate_and_mixtures():
    draws = ideal_gates.draw()
    closed, mixed = ideal_gates.measure_closed(draws), ideal_gates.measure_mixture(draws)
    assert max(closed.entropy_error, closed.output_error) < 1e-12
    assert 0 < closed.other_entropy < math.log(N)
    assert mixed.plain_row_sum == 2
    assert mixed.entropy_gain > 0
    errors = ("output_error", "row_sum_error", "closed_of_columns_error", "mixture_of_columns_error")
    assert max(getattr(mixed, name) for name in errors) < 1e-12


def test_a_softmax_is_as_far_from_a_gate_as_its_gaps_allow():
    scores = torch.zeros(N, N, dtype=torch.float64)
    scores[:, 0] = math.log(N - 1)  # half of each row, at a factor of 1
    scores[0, 0] += 1
    found = ideal_gates.measure_softmax(scores)
    assert found.off_pattern[0] == pytest.approx(0.5)
    assert found.off_pattern[1] == pytest.approx(1 / (1 + (N - 1) ** 9))
    assert found.bounds.tolist() == pytest.approx([1, (N - 1.0) ** -9, (N - 1.0) ** -99])


def census(scores, deviations=None, by_text=None, lengths=(10, 30, 20), **ratios) -> ModelCensus:
    gate = np.zeros(len(gates.GATES))
    by_text = np.zeros((len(lengths), len(gates.GATES))) if by_text is None else by_text
    deviations = 0 * scores if deviations is None else deviations
    return ModelCensus(ratios, {}, scores, deviations, by_text, np.array(lengths), gate[None], gate, np.zeros((1, 1)))


def test_the_best_head_of_a_gate_has_the_interval_of_its_texts():
    scores = np.zeros((2, 2, len(gates.GATES)))
    scores[1, 0, CLOSED], scores[0, 1, 0] = 0.5, 0.25
    best = gate_census.best_heads(census(scores, deviations=0 * scores + 0.1, lengths=range(10, 15)))
    assert (best["closed"].layer, best["closed"].head) == (1, 0)
    assert (best[gates.GATES[0]].layer, best[gates.GATES[0]].head) == (0, 1)
    assert list(best) == list(gates.GATES[: CLOSED + 1])
    half = 2.776 * 0.1 / 5**0.5  # Student's t of five texts
    assert best["closed"].share.value == 0.5
    assert best["closed"].share.high == pytest.approx(0.5 + half, abs=1e-4)
    assert best["closed"].share.low == pytest.approx(0.5 - half, abs=1e-4)


def test_texts_are_grouped_by_length_from_short_to_long():
    lengths = np.arange(3 * FEWEST)[::-1] + 1
    by_text = np.repeat(lengths[:, None] / 100, len(gates.GATES), 1)
    spans, groups = gate_census.group_by_length(census(np.zeros((1, 1, 9)), by_text=by_text, lengths=lengths))
    assert spans == [f"{1 + k * FEWEST} to {(k + 1) * FEWEST}" for k in range(3)]
    middle = [(1 + FEWEST) / 200 + k * FEWEST / 100 for k in range(3)]
    assert [group.value for group in groups["open"]] == pytest.approx(middle)
    assert gate_census.group_by_length(census(np.zeros((1, 1, 9)), lengths=range(FEWEST - 1)))[0] == []


def test_classes_are_means_of_trained_shuffled_and_control():
    scores = np.zeros((1, 2, len(gates.GATES)))
    scores[0, :, 1] = 0.25, 0.75
    found = gate_census.share_by_class(census(scores), census(scores / 2))
    assert found[gates.GATES[1]] == [0.5, 0, 0.25, 0]
    assert found[gates.GATES[0]] == [0, 0, 0, 0]


def test_a_ratio_keeps_its_bounds_and_what_is_missing_is_nan():
    found = gate_census.ratio_of(Value(0.5, 0.0, low=0.25, high=0.75, n=7))
    assert (found.value, found.low, found.high, found.texts) == (0.5, 0.25, 0.75, 7)
    bare = gate_census.ratio_of(Value(0.5))
    assert math.isnan(bare.low)
    assert bare.texts == 0
    wide = gate_census.bound_ratio(Ratio(0.9, -0.1, 1.3, 50))
    assert 0 < wide.low < 0.9 < wide.high < 1
    assert gate_census.bound_ratio(Ratio(0.9, -0.1, 1.3, 50), share=False).high == 1.3
    assert math.isnan(gate_census.bound_ratio(Ratio(0.9, 0.8, 1.0, FEWEST - 1)).low)


def test_shares_by_kind_are_picked_by_name():
    kinds = gate_census.KINDS
    names = [f"{part}_{kind}" for part in ("tokens", "attention", "columns") for kind in kinds]
    trained = census(np.zeros((1, 1, 9)), **{name: Ratio(float(k)) for k, name in enumerate(names)})
    control = census(np.zeros((1, 1, 9)), **{name: Ratio(100.0 + k) for k, name in enumerate(names)})
    found = gate_census.share_by_kind(trained, control)
    size = len(kinds)
    assert found["tokens"].tolist() == list(range(size))
    assert found["on columns"].tolist() == list(range(2 * size, 3 * size))
    assert found["attention, control"].tolist() == [100.0 + k for k in range(size, 2 * size)]


def test_the_clearest_heads_stand_in_the_gallery():
    maps, cells = np.arange(8.0).reshape(2, 2, 1, 2), np.arange(8).reshape(2, 2, 1, 2)
    best = {"open": SimpleNamespace(layer=1, head=0), "closed": SimpleNamespace(layer=0, head=1)}
    found = gate_census.gallery(SimpleNamespace(best=best), maps, cells)
    assert found.titles == ["open: 1.0", "closed: 0.1"]
    assert [each.tolist() for each in found.maps] == [[[4, 5]], [[2, 3]]]


def test_closed_heads_are_compared_with_others_of_all_layers_and_of_their_own():
    closed = {"trained": np.array([[0.5, 0.4, 0.9], [0.1, 0.0, 0.7]])}
    level, zero = np.array([[1.0, 2, 3], [4, 6, 5]]), np.array([[10.0, 20, 30], [40, 60, 50]])
    found = interventions.compare_closed_heads("", closed, {"trained": {"uniform": level, "zero": zero}})
    assert (found.closed_heads, found.closed_in_first_layer, found.others_in_first_layer) == (3, 2, 1)
    medians = found.medians
    assert (medians.level_closed, medians.level_other, medians.level_peers) == (3, 4, 2)
    assert (medians.zero_closed, medians.zero_other, medians.zero_peers) == (30, 40, 20)
    assert math.isnan(interventions.median(np.array([])))


def test_effects_of_a_record_are_means_over_its_texts(monkeypatch):
    ones = np.stack([np.zeros((1, 2)), np.array([[1.0, 3.0]])])
    given = {"zero": ones, "uniform": 2 * ones, "control_zero": 4 * ones, "control_uniform": 8 * ones}
    hand_over(monkeypatch, interventions, **given)
    scores = np.zeros((1, 2, len(gates.GATES)))
    scores[0, 1, CLOSED] = 1
    of = SimpleNamespace(scores={"trained": scores, "control": 0 * scores})
    ablation, numbers = interventions.measure_ablation(SimpleNamespace(departs=False), of)
    assert ablation.effects["trained"]["zero"].tolist() == [[0.5, 1.5]]
    assert ablation.effects["control"]["uniform"].tolist() == [[4, 12]]
    assert (numbers.level_closed, numbers.level_other, numbers.zero_closed) == ("3.0000", "1.0000", "1.5000")


def test_exchanged_biases_keep_their_shares(monkeypatch):
    names = ("columns_own", "columns_none", "columns_random", "mostly_own", "mostly_none", "mostly_random")
    values = {name: Value(0.1 * k, 0.0, low=0.0, high=1.0, n=24) for k, name in enumerate(names)}
    values |= {name: Value(0.0123, 0.0, low=0.0, high=1.0, n=24) for name in ("control_own", "control_lent")}
    values["maps_mostly"] = Value(17)
    result = Known(values=values, arrays={})
    monkeypatch.setattr(interventions, "live_or_record", lambda *_: (result, ""))
    exchanged, numbers = interventions.measure_bias_exchange(SimpleNamespace(departs=False))
    assert (numbers.columns_texts, numbers.columns_none, numbers.control_lent) == (24, "10 %", "1.2 %")
    assert set(exchanged.columns) == set(values) - {"maps_mostly"}
