"""Position-only attention, its statistics, and the widths of the stream, against slow and independent ways."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import six_terms
from analysis.maps.locality import (
    causal_attention,
    nearest_mass,
    peak_distance,
    position_only,
    position_scores,
    position_share,
)
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from tests.analysis.decomposition.test_terms import draw


def test_position_scores_are_the_terms_of_the_layer():
    weights, ln, e, p = draw()
    terms = six_terms(e, p, weights, ln)
    own, both = position_scores(p, sigma(e + p), fold_norm(weights, ln))
    torch.testing.assert_close(own, terms.p, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(both, terms.pp, rtol=1e-12, atol=1e-12)


def test_mean_inverse_sigma_gives_the_mean_positional_term():
    weights, ln, tokens, p = draw(position=6)
    width = 1 / inverse_sigma(tokens, p).mean
    folded = fold_norm(weights, ln)
    every = torch.stack([six_terms(token.expand_as(p), p, weights, ln).p for token in tokens])
    torch.testing.assert_close(position_scores(p, width, folded)[0], every.mean(0), rtol=1e-12, atol=1e-12)


def test_position_only_attention_is_a_layer_fed_positions():
    weights, ln, _, p = draw()
    folded = fold_norm(weights, ln)
    own, both = position_scores(p, sigma(p), folded)
    layer = attend(p / sigma(p)[:, None], replace(folded, mask=Mask(causal=True)))
    torch.testing.assert_close(causal_attention(own[:, None] + both), layer.attention, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(causal_attention(own)[:, -1], own.softmax(-1), rtol=1e-12, atol=1e-12)


def test_locality_statistics_against_loops():
    attention = causal_attention(torch.randn(2, 9, 9, generator=torch.Generator().manual_seed(1)))
    for reach in (1, 3, 20):
        mass = nearest_mass(attention, reach)
        for h, q in np.ndindex(2, 9):
            assert math.isclose(mass[h, q], attention[h, q, max(0, q - reach + 1) : q + 1].sum(), rel_tol=1e-6)
    expected = [[q - int(attention[h, q].argmax()) for q in range(9)] for h in range(2)]
    assert peak_distance(attention).tolist() == expected
    assert peak_distance(attention[:, 5:]).tolist() == [row[5:] for row in expected]


def test_position_only_measures_the_three_parts():
    weights, ln, _, p = draw(position=20)
    own, both = position_scores(p, sigma(p), fold_norm(weights, ln))
    found = position_only(own, both, (2, 5), first=7)
    for part, scores in enumerate((own, both, own[:, None] + both)):
        attention = causal_attention(scores)
        for r, reach in enumerate(found.reaches):
            due = nearest_mass(attention, reach)[:, 7:].mean(-1)
            torch.testing.assert_close(found.mass[r, part], due, rtol=1e-12, atol=1e-12)
        assert (found.peak[part] == peak_distance(attention)).all()
    equal = causal_attention(torch.zeros(1, 20, dtype=torch.float64))
    due = torch.stack([nearest_mass(equal, reach)[0, 7:].mean() for reach in (2, 5)])
    torch.testing.assert_close(found.uniform, due, rtol=1e-12, atol=1e-12)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_inverse_sigma_against_all_at_once(dtype, weighted):
    g = torch.Generator().manual_seed(4)
    tokens = (torch.randn(5000, 16, generator=g, dtype=torch.float64) + 0.3).to(dtype)
    positions = (torch.randn(37, 16, generator=g, dtype=torch.float64) - 0.2).to(dtype)
    frequency = torch.rand(5000, generator=g, dtype=torch.float64).to(dtype) if weighted else None
    levels = (0.0, 0.05, 0.5, 0.951, 1.0)
    found = inverse_sigma(tokens, positions, levels=levels, frequency=frequency, block=10)
    every = 1 / sigma((tokens[None] + positions[:, None]).double())
    weights = torch.ones(5000) if frequency is None else frequency
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    due = (every * weights.double()).sum(1) / weights.double().sum()
    torch.testing.assert_close(found.mean.double(), due, rtol=tolerance, atol=0)
    quantiles = torch.quantile(every, torch.tensor(levels, dtype=torch.float64), dim=1)
    torch.testing.assert_close(found.quantiles.double(), quantiles, rtol=tolerance, atol=0)


def test_position_share_finds_the_share_that_was_put_in():
    g = torch.Generator().manual_seed(5)
    own, other = torch.randn(60, 40, generator=g), torch.randn(200, 60, 40, generator=g)
    assert abs(position_share(own + other) - 0.5) < 0.03
    assert position_share(other) < 0.01
    assert position_share((own + other)[:2, :2]) > 0
    for few in (other[:1], other[:, :1]):
        with pytest.raises(ValueError, match="at least 2 texts"):
            position_share(few)


def test_the_interval_has_bonett_and_wrights_width():
    found = rank_correlation(torch.arange(30.0), -torch.arange(30.0) + 12 * torch.arange(30.0).mul(5).sin())
    assert -0.9 < found.value < -0.5
    error = (math.atanh(found.high) - math.atanh(found.low)) / 2 / 1.959964
    assert math.isclose(error**2 * 27, 1 + found.value**2 / 2, rel_tol=1e-5)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, math.nan])
def test_an_interval_has_a_level_between_none_and_all(level):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        rank_correlation(torch.arange(9.0), torch.arange(9.0).flip(0).sin(), level)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    widths, correlate, position = inverse_sigma, rank_correlation, position_scores
    table = torch.ones(3, 4)
    with pytest.raises(ValueError, match="none of them empty"):
        widths(table[:0], table)
    with pytest.raises(ValueError, match=r"positions must be .* to fit tokens"):
        widths(table, table[:, 1:])
    with pytest.raises(ValueError, match=r"positions must be .* to fit tokens"):
        widths(table, table.double())
    with pytest.raises(ValueError, match="levels must lie"):
        widths(table, table, levels=(1.2,))
    with pytest.raises(ValueError, match="block must be"):
        widths(table, table, block=0)
    with pytest.raises(ValueError, match="frequency must be finite weights"):
        widths(table, table, frequency=torch.tensor([1.0, -1.0, 1.0]))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not finite"):
            widths(torch.full((3, 4), bad), table)
    with pytest.raises(ValueError, match="reach must be"):
        nearest_mass(torch.ones(1, 1, 1), 0)
    with pytest.raises(ValueError, match="at least 4"):
        correlate(torch.ones(3), torch.ones(3))
    with pytest.raises(ValueError, match=r"b must be \(5,\) .* to fit a"):
        correlate(torch.ones(5), torch.ones(6))
    with pytest.raises(ValueError, match="not constant"):
        correlate(torch.ones(5), torch.arange(5.0))
    with pytest.raises(ValueError, match="finite"):
        correlate(torch.tensor([1.0, 2, 3, math.nan]), torch.arange(4.0))
    with pytest.raises(ValueError, match="first must be below"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), first=3)
    with pytest.raises(ValueError, match="not negative, got -1"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), first=-1)
    with pytest.raises(ValueError, match="both must be"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 4), first=1)
    with pytest.raises(ValueError, match="reaches is empty"):
        position_only(torch.zeros(1, 3), torch.zeros(1, 3, 3), (), first=1)
    with pytest.raises(ValueError, match="level must lie"):
        correlate(torch.arange(5.0), torch.arange(5.0), level=95)
    partial, ramp = partial_rank_correlation, torch.arange(5.0)
    with pytest.raises(ValueError, match=r"control must be \(5,\) .* to fit a"):
        partial(ramp, ramp, ramp[1:])
    with pytest.raises(ValueError, match="not constant"):
        partial(ramp, torch.ones(5), ramp)
    with pytest.raises(ValueError, match="nothing is left"):
        partial(ramp, torch.tensor([1.0, 0, 2, 4, 3]), ramp)
    for bad in (torch.tensor([1.0, math.nan]), torch.ones(1)):
        with pytest.raises(ValueError, match="no nan"):
            recency(bad)
    one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    layer = AttentionLayer(one, one, one, one, zero, zero, zero, torch.zeros(1))
    for bad in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="width must be"):
            position(torch.ones(2, 1), torch.tensor([1.0, bad]), layer)


@pytest.mark.usefixtures("unchecked")
def test_position_only_does_not_mix_precisions():
    with pytest.raises(ValueError, match=r"both must be .* to fit own"):
        position_only(torch.zeros(1, 4), torch.zeros(1, 4, 4, dtype=torch.float64), (1,), first=1)


def test_positions_are_measured_from_the_fiftieth_on_unless_told():
    own, both = torch.randn(2, 60), torch.randn(2, 60, 60)
    found, due = position_only(own, both), position_only(own, both, (3, 50), first=50)
    for name in ("mass", "uniform", "peak"):
        assert (getattr(found, name) == getattr(due, name)).all()


def test_the_share_of_positions_by_hand():
    """Between texts 2 and 8 at the two positions, 5 on the mean; means 1 and 4: 4.5, of which 5/2 is left by chance."""
    states = torch.tensor([[0.0, 2.0], [2.0, 6.0]])[..., None]
    assert position_share(states) == pytest.approx(2 / (2 + 5), abs=1e-6)
