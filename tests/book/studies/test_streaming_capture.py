"""The study of streaming capture: what it promises, and what it takes for the same numbers."""

import pytest
import torch

from analysis.maps.streaming import MapStatistics
from book.studies import streaming_capture as study
from book.studies.streaming_capture.measure import LIMITS, Cost


@pytest.mark.parametrize(("kind", "value", "within"), [("at most", 3.9, True), ("at most", 4.1, False),
                                                       ("at least", 4.1, True), ("at least", 3.9, False)])
def test_a_promise_is_kept_on_one_side_of_its_limit(kind, value, within):
    assert Cost("", value, kind, 4).within_limit is within
    assert Cost("", 4, kind, 4).within_limit


def test_a_largest_difference_of_a_millionth_is_none():
    differences = torch.zeros(2, 3, 4, dtype=torch.float64)
    assert study.findings.agrees(differences)
    differences[1, 2, 3] = -2e-6
    assert not study.findings.agrees(differences)


def test_one_unit_more_in_one_sum_is_another_statistic():
    statistics, others = MapStatistics(1, 2, 4), MapStatistics(1, 2, 4)
    assert study.findings.same_bits(statistics, others)
    for total in others.state.values():
        total.view(-1)[-1] += 1
        assert not study.findings.same_bits(statistics, others)
        total.view(-1)[-1] -= 1


def test_the_text_names_what_the_record_holds():
    m = study.measure()
    assert list(m.costs) == list(LIMITS)
    assert m.share == f"{100 * (m.costs['time'].value - 1):.0f} %"
    assert m.faster == f"{m.costs['vectorised'].value:.0f}"
    assert m.much_faster == f"{m.costs['naive'].value:.0f}"
    assert m.memory == f"{m.costs['memory'].value:.0f} MB"
    assert not m.inputs.departs
