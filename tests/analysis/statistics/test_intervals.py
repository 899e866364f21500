"""Intervals cover what they should, and refuse what they cannot say."""

import itertools

import numpy as np
import pytest

from analysis.statistics import intervals


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


def test_marks_are_turned_round_and_compared_with_all():
    found = intervals.rotations([4.0, 0.0, 2.0, 2.0], [True, False, False, True])
    assert found.tolist() == [1.5, 1.0, 0.5, 1.0]  # means of 3, 2, 1 and 2 over the mean of 2


def test_levels_and_groups_by_their_formulas():
    values = [1.0, 2.0, 6.0, 7.0]  # mean 4, variance 26 / 3
    found = intervals.mean_interval(values, 0.9)
    half = 2.3533634 * (26 / 3 / 4) ** 0.5  # Student's t of 3 degrees, 95 %
    assert found == pytest.approx((4.0, 4 - half, 4 + half), rel=1e-5)
    grouped = intervals.grouped_share_interval([True, False, False, False, False], list("aabbc"), 0.9)
    assert grouped.value == 0.2
    assert grouped == pytest.approx(intervals._cautious(0.2, 25 / 9, 0.9))  # groups of 2, 2 and 1
    # Clopper and Pearson: the chance of so many hits or more, or fewer, is 5 % at either bound
    shares = intervals.share_interval(1, 3, 0.9)
    assert 1 - (1 - shares.low) ** 3 == pytest.approx(0.05)
    assert (1 - shares.high) ** 3 + 3 * shares.high * (1 - shares.high) ** 2 == pytest.approx(0.05)
    assert intervals._cautious(1 / 3, 3, 0.9) == pytest.approx(shares)


@pytest.mark.parametrize("sizes", [[10] * 10, [50, 20, 10, 5, 5, 2, 2, 2, 2, 2], [100, *[1] * 9]])
def test_groups_that_are_hit_or_missed_together_are_covered_whatever_their_sizes(sizes):
    """Over all ways in which groups can be hit, each with the chance 1/2, at least 95 % of the intervals hold it."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for hit in itertools.product((False, True), repeat=len(sizes)):
        interval = intervals.grouped_share_interval(np.repeat(hit, sizes), groups.tolist())
        covered += interval.low <= 0.5 <= interval.high
    assert covered / 2 ** len(sizes) >= 0.95


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intervals.rotations([1.0, 2.0], [True]), "values must have a mark each"),
        (lambda: intervals.rotations([1.0, 2.0], [False, False]), "values must have a mark each"),
        (lambda: intervals.rotations([0.0, 0.0], [True, False]), "values must have a mark each"),
        (lambda: intervals.mean_interval([1.0, float("nan")]), "values must be finite, got nan"),
        (lambda: intervals.mean_interval([1.0, 2.0], 1.5), "level must lie between 0 and 1, got 1.5"),
        (lambda: intervals.grouped_share_interval(np.array([0.5, 0.5]), ["a", "b"]), "hits must be 0 or 1"),
        (lambda: intervals.grouped_share_interval([True, False], ["a", "b"], 0.0), "level must lie between 0 and 1"),
    ],
)
def test_what_is_no_sample_or_no_level_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
