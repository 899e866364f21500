"""Rank correlations and their intervals, against slow and independent ways."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency


@pytest.mark.parametrize("ties", [False, True])
def test_rank_correlation_against_scipy(ties):
    g = torch.Generator().manual_seed(2)
    a, b, c = torch.randn(3, 200, generator=g, dtype=torch.float64).cumsum(0)
    if ties:
        a, b = a.round(), b.round()
    found = rank_correlation(a, b)
    assert math.isclose(found.value, stats.spearmanr(a, b).statistic, rel_tol=1e-12)
    assert found.low < found.value < found.high
    ranks = [stats.rankdata(s) for s in (a, b, c)]
    left = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
    assert math.isclose(partial_rank_correlation(a, b, c), np.corrcoef(*left)[0, 1], rel_tol=1e-9)
    if not ties:
        due = stats.spearmanr(np.arange(200), a).statistic
        assert math.isclose(recency(a), due, rel_tol=1e-12)


def test_the_interval_covers_as_often_as_it_says():
    g, truth = torch.Generator().manual_seed(3), 6 / math.pi * math.asin(0.6 / 2)
    inside = 0
    for _ in range(400):
        x, noise = torch.randn(2, 80, generator=g, dtype=torch.float64)
        found = rank_correlation(x, 0.6 * x + 0.8 * noise)
        inside += found.low <= truth <= found.high
    assert 0.92 <= inside / 400 <= 0.98


def test_the_interval_has_bonett_and_wrights_width():
    found = rank_correlation(torch.arange(30.0), -torch.arange(30.0) + 12 * torch.arange(30.0).mul(5).sin())
    assert -0.9 < found.value < -0.5
    error = (math.atanh(found.high) - math.atanh(found.low)) / 2 / 1.959964
    assert math.isclose(error**2 * 27, 1 + found.value**2 / 2, rel_tol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    with pytest.raises(ValueError, match="at least 4"):
        rank_correlation(torch.ones(3), torch.ones(3))
    with pytest.raises(ValueError, match="not constant"):
        rank_correlation(torch.ones(5), torch.arange(5.0))
    with pytest.raises(ValueError, match="level must lie"):
        rank_correlation(torch.arange(5.0), torch.arange(5.0), level=95)
    ramp = torch.arange(5.0)
    with pytest.raises(ValueError, match="not constant"):
        partial_rank_correlation(ramp, torch.ones(5), ramp)
    with pytest.raises(ValueError, match="nothing is left"):
        partial_rank_correlation(ramp, torch.tensor([1.0, 0, 2, 4, 3]), ramp)
