"""Attention as a weighted mean: closed forms, folding, what is uniform and what is not, the dial."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.core.attention_layer import Mask, Norm
from analysis.decomposition import folding, uniform
from analysis.decomposition.folding import fold_value_bias
from analysis.maps import entropy
from analysis.transformer.attention import attend, compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from tests.analysis.tiny import draw, random_layer

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def test_bab():
    x = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)
    due = torch.tensor([[0, 1, 0], [1 / 2, 1 / 2, 0], [1 / 3, 2 / 3, 0]], dtype=torch.float64)
    torch.testing.assert_close(uniform.uniform_causal(3) @ x, due, **CLOSE)
    torch.testing.assert_close(uniform.cumulative_means(x), due, **CLOSE)


@given(n=st.integers(1, 40), d=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_cumulative_means_is_the_triangular_product(n, d):
    x = draw(2, n, d)
    torch.testing.assert_close(uniform.cumulative_means(x), uniform.uniform_causal(n) @ x, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_folded_values_give_the_layer(causal):
    layer, x = random_layer(causal=causal), draw(2, 7, 12)
    due = attend(x, layer)
    ours = folding.apply_folded(due.attention, x, folding.fold_values(layer))
    torch.testing.assert_close(ours, due.output, **CLOSE)
    moved = fold_value_bias(layer)
    assert not moved.b_V.any()
    torch.testing.assert_close(attend(x, moved).output, due.output, **CLOSE)


def test_folding_is_refused_without_unit_rows_and_the_difference_is_known():
    layer, x = random_layer(), draw(7, 12)
    attention = attend(x, layer).attention * (draw(3, 7, 7) > -0.5)  # dropout without rescaling
    folded = folding.fold_values(layer)
    with pytest.raises(ValueError, match="sum to 1"):
        folding.apply_folded(attention, x, folded)
    values = torch.einsum("nd,hdc->hnc", x, layer.W_V) + layer.b_V[:, None]
    true = torch.einsum("hqk,hkc,hcd->qd", attention, values, layer.W_O) + layer.b_O
    wrong = torch.einsum("hqk,kd,hde->qe", attention, x, folded.W_VO) + folded.b_VO
    assert (true - wrong).abs().max() > 0.1
    torch.testing.assert_close(wrong + folding.missing_bias(attention, layer), true, **CLOSE)


def test_folding_is_refused_for_small_departures_and_allowed_for_rounding():
    layer, x = random_layer(), draw(7, 12)
    folded, attention = folding.fold_values(layer), attend(x, layer).attention
    folding.apply_folded(attention * (1 + 1e-15), x, folded)
    with pytest.raises(ValueError, match="misses it by 1e-09"):
        folding.apply_folded(attention * (1 + 1e-9), x, folded)


def uniform_by_running(layer, x):
    attention = attend(x, replace(layer, mask=Mask(causal=True))).attention
    return (attention - uniform.uniform_causal(x.shape[-2])).abs().amax() < 1e-12


ZERO = torch.zeros(3, 12, 4, dtype=torch.float64)
NONE = torch.zeros(3, 4, dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"W_K": ZERO}, True),
        ({"W_Q": ZERO}, False),
        ({"W_Q": ZERO, "b_Q": NONE}, True),
        ({"W_Q": ZERO, "b_Q": NONE, "b_K": 100 * draw(3, 4)}, True),
        ({"b_Q": NONE, "b_K": NONE}, False),
        ({}, False),
    ],
)
def test_which_weights_are_uniform(change, expected):
    layer = replace(random_layer(), **change)
    found = uniform.key_preference(layer)
    assert bool(((found.content + found.constant) < 1e-12).all()) == expected
    assert uniform_by_running(layer, draw(4, 9, 12)) == expected


def test_orthogonal_queries_and_keys_are_uniform():
    layer = random_layer()
    W_Q, W_K, b_Q = (v.clone() for v in (layer.W_Q, layer.W_K, layer.b_Q))
    W_Q[..., 2:], W_K[..., :2], b_Q[:, 2:] = 0, 0, 0
    assert uniform_by_running(replace(layer, W_Q=W_Q, W_K=W_K, b_Q=b_Q), draw(9, 12))
    preference = uniform.key_preference(replace(layer, W_Q=W_Q, W_K=W_K, b_Q=b_Q))
    assert preference.content.max() < 1e-12
    assert preference.constant.max() < 1e-12


def test_uniform_on_one_hot_inputs_only():
    ones = torch.ones(12, 1, dtype=torch.float64)
    W_K = ones[None] @ draw(3, 1, 4)
    layer = replace(random_layer(), W_K=W_K)
    x = torch.eye(12, dtype=torch.float64)[torch.tensor([3, 1, 3, 0, 11, 5])]
    assert uniform_by_running(layer, x)
    assert not uniform_by_running(layer, draw(6, 12))
    assert uniform.key_preference(layer, uniform.one_hot_input(12)).content.max() < 1e-12
    assert uniform.key_preference(layer).content.min() > 0.1


def test_uniform_on_layer_norm_outputs_only():
    norm = Norm(draw(12, seed=3) + 2, draw(12, seed=4))
    W_K = (1 / norm.gain)[:, None] @ draw(3, 1, 4)
    layer = replace(random_layer(), W_K=W_K)
    assert uniform_by_running(layer, apply_norm(draw(9, 12), norm))
    assert not uniform_by_running(layer, draw(9, 12))
    found = uniform.key_preference(layer, uniform.layer_norm_output(norm))
    assert (found.content + found.constant).max() < 1e-10
    # a bias of LayerNorm that meets W_Q works as a query bias
    layer = replace(random_layer(), W_Q=ZERO + 1, b_Q=NONE, W_K=random_layer().W_K)
    found = uniform.key_preference(layer, uniform.layer_norm_output(replace(norm, gain=torch.ones_like(norm.gain))))
    assert found.content.max() < 1e-10
    assert found.constant.min() > 0.1


def test_preference_is_the_root_mean_square_over_isotropic_inputs():
    model = 12
    norm = Norm(draw(model, seed=3) + 2, draw(model, seed=4), eps=0.0)
    layer = replace(random_layer(), b_K=NONE)
    x = apply_norm(draw(3000, model), norm)
    scores = compute_scores(x, layer)
    found = uniform.key_preference(layer, uniform.layer_norm_output(norm))
    squared = (found.content**2 + found.constant**2) * model / (model - 1)
    within = scores.var(-1).mean(-1)
    torch.testing.assert_close(within * (model - 1) / model, squared * (model - 1) / model, rtol=0.1, atol=0)


def test_mean_layer():
    x = draw(2, 9, 12)
    layer = uniform.mean_layer(12, 3, 4)
    torch.testing.assert_close(attend(x, replace(layer, mask=Mask(True))).output, uniform.cumulative_means(x), **CLOSE)
    torch.testing.assert_close(folding.fold_values(layer).W_VO.sum(0), torch.eye(12, dtype=torch.float64))
    assert attend(x, uniform.mean_layer(12, 5, 4)).output.shape == x.shape
    with pytest.raises(ValueError, match="head \\* channel must be at least"):
        uniform.mean_layer(12, 2, 4)


def test_entropy_and_spread():
    scores = mask_future(draw(2, 3, 6, 6))
    p = scores.softmax(-1)
    plain = -(p * p.clamp_min(1e-300).log()).sum(-1)
    torch.testing.assert_close(entropy.entropy_of_scores(scores), plain, **CLOSE)
    torch.testing.assert_close(entropy.count_visible_keys(scores)[0, 0], torch.arange(1.0, 7.0, dtype=torch.float64))
    extreme = torch.tensor([[[1e6, 0.0, -math.inf]]], dtype=torch.float64)
    assert entropy.entropy_of_scores(extreme).item() == 0


@given(seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_deficit_is_at_most_an_eighth_of_the_squared_spread(seed):
    scores = mask_future(0.7 * draw(1, 8, 8, seed=seed))
    deficit = entropy.count_visible_keys(scores).log() - entropy.entropy_of_scores(scores)
    spread = scores.amax(-1) - scores.masked_fill(scores.isinf(), math.inf).amin(-1)
    assert (deficit <= spread**2 / 8 + 1e-12).all()
    assert (deficit >= -1e-12).all()


def test_dial():
    scores = mask_future(draw(2, 6, 6))
    dials = torch.tensor([0.0, 0.5, 1.0, 1000.0], dtype=torch.float64)
    turned = entropy.entropy_at(scores, dials)
    torch.testing.assert_close(turned[0], torch.arange(1.0, 7.0, dtype=torch.float64).log().expand(2, 6), **CLOSE)
    torch.testing.assert_close(turned[2], entropy.entropy_of_scores(scores), **CLOSE)
    assert (turned.diff(dim=0) <= 1e-12).all()
    assert turned[3].max() < 1e-3
    step = torch.tensor([1 - 1e-5, 1 + 1e-5], dtype=torch.float64)
    slope = entropy.entropy_at(scores, step).diff(dim=0)[0] / 2e-5
    p, s = scores.softmax(-1), scores.masked_fill(torch.isinf(scores), 0)
    variance = (p * s**2).sum(-1) - (p * s).sum(-1) ** 2
    torch.testing.assert_close(slope, -variance, rtol=1e-6, atol=1e-8)


def test_dial_is_the_scaling_of_W_Q_and_b_Q():
    layer, x = random_layer(), draw(7, 12)
    scaled = replace(layer, W_Q=0.3 * layer.W_Q, b_Q=0.3 * layer.b_Q)
    due = entropy.entropy_of_scores(mask_future(compute_scores(x, scaled)))
    got = entropy.entropy_at(mask_future(compute_scores(x, layer)), torch.tensor([0.3], dtype=torch.float64))[0]
    torch.testing.assert_close(got, due, **CLOSE)


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    for n in (0, 2.5):
        with pytest.raises(ValueError, match="n must be"):
            uniform.uniform_causal(n)
    with pytest.raises(ValueError, match="inverse_temperatures must be"):
        entropy.entropy_at(torch.zeros(1, 2, 2), torch.tensor([-1.0]))
    with pytest.raises(ValueError, match=r"hull.origin must be \(12,\)"):
        uniform.key_preference(random_layer(), uniform.any_input(5))


@pytest.mark.parametrize(
    ("row", "message"), [([math.inf, 0.0], "nan or plus infinity"), ([-math.inf, -math.inf], "at least one key")]
)
def test_scores_without_a_softmax_are_refused(row, message):
    scores = torch.tensor([[row]], dtype=torch.float64)
    for function in (entropy.entropy_of_scores, lambda s: entropy.entropy_at(s, torch.tensor([0.0, 1.0]))):
        with pytest.raises(ValueError, match=message):
            function(scores)
