"""Lilliefors against statsmodels and scipy, its table against fresh simulation, what D must not notice."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from statsmodels.stats._lilliefors import get_lilliefors_table
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis.core.attention_layer import Norm
from analysis.statistics import normality
from analysis.transformer.layernorm import apply_norm


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("n", [4, 17, 768])
@pytest.mark.parametrize("shape", ["gaussian", "heavy", "skewed", "ties", "far from zero"])
def test_equals_statsmodels(n, shape):
    rows = {
        "gaussian": draw(20, n),
        "heavy": draw(20, n) ** 3,
        "skewed": draw(20, n).exp(),
        "ties": (2 * draw(20, n)).round() + 0.01 * torch.eye(20, n),
        "far from zero": 30 + draw(20, n),
    }[shape]
    due = [by_statsmodels(row)[0] for row in rows.numpy()]
    np.testing.assert_allclose(normality.lilliefors(rows).numpy(), due, rtol=0, atol=1e-12)


def test_float32_rows_are_compared_in_float64():
    rows = 100 + draw(200, 768, dtype=torch.float32)
    torch.testing.assert_close(normality.lilliefors(rows), normality.lilliefors(rows.double()), rtol=0, atol=1e-12)


def test_of_two_differences_that_float32_cannot_tell_apart_the_larger_one_counts():
    """Between these two samples the largest difference changes its place; next to there float32 takes the other one."""
    here = torch.tensor([-0.948, -0.880, -1.361, 0.723, 0.099, -0.828, -1.456, -0.340], dtype=torch.float64)
    there = torch.tensor([-0.603, 0.542, -0.332, -0.498, -0.587, 0.221, 1.062, -0.073], dtype=torch.float64)
    near = 0.326893433 + torch.linspace(-2e-6, 2e-6, 400, dtype=torch.float64)
    rows = here + near[:, None] * (there - here)
    due = [by_statsmodels(row)[0] for row in rows.numpy()]
    np.testing.assert_allclose(normality.lilliefors(rows).numpy(), due, rtol=0, atol=1e-12)


def test_batches_keep_their_shape():
    rows = draw(2, 3, 40)
    whole = normality.lilliefors(rows)
    assert torch.equal(whole, torch.stack([normality.lilliefors(each) for each in rows]))
    assert normality.lilliefors(draw(0, 40)).shape == (0,)
    assert normality.lilliefors(draw(40)).shape == ()


def test_does_not_notice_layer_norm_without_gain_and_bias_but_notices_gain():
    rows = 5 + 3 * draw(30, 256)
    plain = apply_norm(rows, Norm(torch.ones(256).double(), torch.zeros(256).double(), eps=1e-12))
    torch.testing.assert_close(normality.lilliefors(plain), normality.lilliefors(rows), rtol=0, atol=1e-12)
    gained = plain * torch.linspace(0.1, 4, 256).double()
    assert (normality.lilliefors(gained) - normality.lilliefors(rows)).abs().median() > 0.01


@pytest.mark.parametrize("n", [9, 768, 3500])
def test_critical_values_reject_as_often_as_they_say(n):
    drawn = normality.simulate_null(n, 20_000, np.random.default_rng(5))
    for level in (0.5, 0.2, 0.1, 0.05, 0.01):
        share = (drawn > normality.critical_value(n, level)).double().mean().item()
        assert abs(share - level) < 4 * math.sqrt(level * (1 - level) / 20_000) + 0.03 * level


@pytest.mark.parametrize(("n", "draws"), [(768, 20_000), (10_000, 6000)])
def test_the_rule_of_1967_rejects_too_often(n, draws):
    """0.886/sqrt(n) and the table at its far end, simulated afresh: the rule's level is near 6 %, the table's 5 %."""
    drawn = normality.simulate_null(n, draws, np.random.default_rng(7))
    noise = math.sqrt(0.05 * 0.95 / draws)
    assert (drawn > normality.critical_value(n)).double().mean().item() == pytest.approx(0.05, abs=3 * noise)
    assert 0.05 + noise < (drawn > 0.886 / math.sqrt(n)).double().mean().item() < 0.07
    assert normality.critical_value(n) == pytest.approx(drawn.quantile(0.95).item(), rel=0.012)


@pytest.mark.parametrize("n", [4, 5, 7, 10, 18, 40, 100, 400, 800, 1600])
def test_agrees_with_the_sizes_that_statsmodels_simulated(n):
    """Ten million draws a size; between its sizes statsmodels interpolates by up to 5 % off, so only these compare."""
    table = get_lilliefors_table()
    for level in (0.5, 0.25, 0.1, 0.05, 0.025, 0.01):
        assert normality.critical_value(n, level) == pytest.approx(table.crit(level, n), rel=0.004)


def test_the_table_can_be_made_again():
    again = normality.make_table(draws=400)
    assert again.shape == normality.TABLE.shape
    np.testing.assert_allclose(again[:, 2], normality.TABLE[:, 2], atol=0.06)
    assert (np.diff(normality.TABLE, axis=1) > 0).all()


def test_kurtosis_equals_scipy():
    rows = draw(5, 100).exp()
    np.testing.assert_allclose(normality.excess_kurtosis(rows), stats.kurtosis(rows.numpy(), axis=-1), rtol=1e-10)


def test_kurtosis_and_outliers_do_not_overflow():
    rows = draw(5, 100).exp()
    for factor in (1e-300, 1e300):
        torch.testing.assert_close(normality.excess_kurtosis(rows * factor), normality.excess_kurtosis(rows))
        torch.testing.assert_close(normality.standardise(rows * factor), normality.standardise(rows))
        outliers = normality.outlier_dimensions(rows * factor, 2.0)
        assert outliers.tolist() == normality.outlier_dimensions(rows, 2.0).tolist()
    small = rows.float()
    torch.testing.assert_close(normality.excess_kurtosis(small * 1e30), normality.excess_kurtosis(small))


def test_standing_out_goes_by_the_root_of_the_mean_square():
    """A coordinate of root mean square 2 has a mean square of 4: below and above a threshold of 3."""
    signs = torch.ones(40).double()
    signs[::2] = -1
    rows = draw(40, 400)
    rows[:, 5], rows[:, 9] = 2 * signs, 3.5 * signs
    assert normality.outlier_dimensions(rows).tolist() == [9]
    assert normality.outlier_dimensions(rows, 1.8).tolist() == [9, 5]


def test_finds_planted_coordinates_largest_first_and_drops_them():
    rows = draw(40, 200)
    rows[:, 7] += 6
    rows[:, 90] -= 9
    found = normality.outlier_dimensions(rows)
    assert found.tolist() == [90, 7]
    assert normality.without(rows, found).shape == (40, 198)
    before, after = (normality.excess_kurtosis(r).mean() for r in (rows, normality.without(rows, found)))
    assert before > 2
    assert after.abs() < 0.5


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e-160, 1e160, 1e200, 1e307])
def test_overflow_and_underflow_change_nothing(factor):
    rows = draw(6, 50)
    due = normality.lilliefors(rows)
    torch.testing.assert_close(normality.lilliefors(rows * factor), due, rtol=0, atol=1e-12)
    mixed = torch.cat([rows, rows * factor])  # rows of all sizes side by side
    torch.testing.assert_close(normality.lilliefors(mixed), torch.cat([due, due]), rtol=0, atol=1e-12)


def test_refuses_what_the_table_does_not_hold():
    for n in (3, 10_001):
        with pytest.raises(ValueError, match="n must be between"):
            normality.critical_value(n)
    with pytest.raises(ValueError, match="level must be"):
        normality.critical_value(100, 1e-5)
    with pytest.raises(ValueError, match="at least 4"):
        normality.lilliefors(torch.zeros(3))
    with pytest.raises(ValueError, match="without spread"):
        normality.lilliefors(torch.full((2, 9), 0.1))
    for n in (0, 3, -1):
        with pytest.raises(ValueError, match="n must be at least 4"):
            normality.simulate_null(n, 10, np.random.default_rng(0))
    with pytest.raises(ValueError, match="draws"):
        normality.simulate_null(10, 0, np.random.default_rng(0))
