"""Intervals cover what they should, and refuse what they cannot say."""

import doctest

import numpy as np
import pytest

from analysis.statistics import intervals


def test_examples():
    assert doctest.testmod(intervals).failed == 0


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    means = [intervals.mean_interval(rng.normal(3, 2, 8)) for _ in range(500)]
    assert 0.92 < np.mean([i.low <= 3 <= i.high for i in means]) < 0.98
    shares = [intervals.share_interval(rng.binomial(50, 0.1), 50) for _ in range(500)]
    assert np.mean([i.low <= 0.1 <= i.high for i in shares]) > 0.94


def test_one_value_has_no_interval():
    with pytest.raises(ValueError, match="at least two"):
        intervals.mean_interval([1.0])
    assert intervals.mean_interval([1.0, 3.0]).high == pytest.approx(2 + 12.7062, rel=1e-5)  # Student's t, 1 degree


def test_a_bounded_interval_covers_the_truth_and_stays_where_a_share_can_be():
    rng = np.random.default_rng(0)
    for truth in (0.005, 0.02, 0.5, 0.98):
        drawn = [rng.binomial(20, truth, 8) / 20 for _ in range(1000)]
        found = [intervals.bounded(intervals.mean_interval(shares), 8) for shares in drawn]
        assert all(0 <= i.low <= i.value <= i.high <= 1 for i in found)
        assert np.mean([i.low <= truth <= i.high for i in found]) > 0.93
    drawn = [rng.binomial(20, 0.005, 8) / 20 for _ in range(1000)]
    free = [intervals.mean_interval(shares) for shares in drawn]
    assert any(i.low < 0 for i in free)
    assert np.mean([i.low <= 0.005 <= i.high for i in free]) < 0.6, "often all are 0, and Student's has no width"


def test_bounded_leaves_what_is_possible_alone_and_says_when_there_are_too_few():
    inside = intervals.Interval(0.5, 0.01, 0.99)
    assert intervals.bounded(inside, 3) is inside
    assert intervals.bounded(intervals.Interval(0.0, 0.0, 0.0), 8) == intervals.share_interval(0, 8)
    whole = intervals.bounded(intervals.Interval(1.0, 1.0, 1.0), 8)
    assert whole[1:] == pytest.approx(intervals.share_interval(8, 8)[1:])
    assert intervals.bounded(intervals.Interval(1.2, -0.1, 2.5), 3, share=False) == (1.2, 0.0, 2.5)
    few = intervals.bounded(inside, 2)
    assert few.value == 0.5
    assert np.isnan(few[1:]).all()
    assert few.format(".2f", before="95 % ") == "too few texts to tell"
    assert inside.format(".2f", before="95 % ") == "95 % 0.01 to 0.99"
    assert np.isnan(intervals.bounded(intervals.Interval(float("nan"), 0.0, 0.0), 0).value)


@pytest.mark.parametrize(("value", "share"), [(1.01, True), (-0.01, True), (-0.01, False), (float("nan"), True)])
def test_bounded_refuses_what_is_no_share(value, share):
    with pytest.raises(ValueError, match="interval must hold"):
        intervals.bounded(intervals.Interval(value, 0.1, 0.2), 5, share=share)
