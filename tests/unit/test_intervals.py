"""Intervals cover what they should, and refuse what they cannot say."""

import doctest

import numpy as np
import pytest

from analysis import intervals


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
