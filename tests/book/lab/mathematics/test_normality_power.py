"""What a shape that shows at one sample size shows at another."""

import numpy as np
import pytest
import torch

from analysis.statistics import normality
from book.lab.mathematics import normality_power


def heavy(freedom, size, draws=1500, seed=9):
    sample = np.random.default_rng(seed).standard_t(freedom, (draws, size))
    return normality.lilliefors(torch.from_numpy(sample)).numpy()


def test_a_shape_is_recognised_at_the_other_size():
    large, small = heavy(4.5, 768), heavy(4.5, 192)  # 4.5 is none of the shapes that are tried
    found = normality_power.at_other_size([large.mean()], 768, 192, np.random.default_rng(0))
    assert found.mean[0] == pytest.approx(small.mean(), rel=0.04)
    assert found.failing[0] == pytest.approx((small > normality.critical_value(192)).mean(), abs=0.06)


def test_the_shapes_grow_heavier_from_one_to_the_next():
    assert list(normality_power.FREEDOMS) == sorted(set(normality_power.FREEDOMS), reverse=True)


def test_below_the_gaussian_stands_the_gaussian():
    found = normality_power.at_other_size([0.001, 0.015], 768, 192, np.random.default_rng(0))
    null = normality.simulate_null(192, 1500, np.random.default_rng(1)).mean().item()
    assert found.mean[0] == found.mean[1] == pytest.approx(null, rel=0.03)
    assert found.failing == pytest.approx(0.05, abs=0.03)


def test_where_chance_makes_a_heavier_shape_look_lighter_the_larger_statistic_stands(monkeypatch):
    """The third shape's mean falls below the second's: it takes the second's place, so that a larger D stays larger."""
    means = dict(zip(normality_power.FREEDOMS, 0.02 + 0.01 * np.arange(len(normality_power.FREEDOMS)), strict=True))
    means[normality_power.FREEDOMS[2]] = 0.015
    monkeypatch.setattr(normality_power, "_statistics", lambda freedom, *_: np.full(5, means[freedom]))
    statistics = np.array([0.022, 0.028, 0.035, 0.04, 0.045, 0.055])
    between = 0.015 + (statistics - 0.03) / 0.02 * 0.035
    due = np.where((statistics > 0.05) | (statistics < 0.03), statistics, between)
    found = normality_power.at_other_size(statistics, 100, 50, np.random.default_rng(0))
    assert found.mean == pytest.approx(due)


def test_the_same_size_gives_the_statistics_back():
    due = np.array([0.04, 0.06, 0.09])
    assert normality_power.at_other_size(due, 300, 300, np.random.default_rng(0)).mean == pytest.approx(due, rel=0.06)


def test_what_no_shape_reaches_is_refused():
    with pytest.raises(ValueError, match="statistics must be at most"):
        normality_power.at_other_size([0.5], 100, 50, np.random.default_rng(0), draws=50)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="statistics must be finite"):
        normality_power.at_other_size([0.05, None], 100, 50, np.random.default_rng(0), draws=50)
