"""Patterns and messages against the reference attention; what the factors may do; rotary embeddings; costs."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.decomposition import qk_ov
from analysis.decomposition.terms import semi_bias
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend, compute_scores
from tests.analysis.tiny import draw, random_layer

CLOSE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head", "model", "channel"), [(3, 12, 4), (1, 5, 5), (4, 6, 3)])
def test_patterns_and_messages_are_the_layer(causal, head, model, channel):
    layer, x = random_layer(head, model, channel, causal=causal), draw(2, 7, model)
    due, ours = attend(x, layer), qk_ov.attend_by_patterns(x, layer)
    torch.testing.assert_close(ours.attention, due.attention, **CLOSE)
    torch.testing.assert_close(ours.output, due.output, **CLOSE)


def test_scores_differ_by_row_constants_only():
    layer, x = random_layer(), draw(7, 12)
    gap = compute_scores(x, layer) - qk_ov.attend_by_patterns(x, layer).scores
    assert gap.abs().max() > 0.1
    torch.testing.assert_close(gap, gap[..., :1].expand_as(gap), **CLOSE)


def test_merged_matrices():
    layer, x = random_layer(), draw(7, 12)
    W_P, W_M = qk_ov.qk_matrix(layer), qk_ov.ov_matrix(layer)
    assert W_P.shape == W_M.shape == (3, 12, 12)
    assert (torch.linalg.matrix_rank(W_P) == 4).all()
    merged = x @ W_P + qk_ov.constant_pattern(layer)[:, None]
    torch.testing.assert_close(merged, qk_ov.patterns(x, layer), **CLOSE)
    torch.testing.assert_close(x @ W_M, qk_ov.messages(x, layer), **CLOSE)


def test_the_constant_part_is_the_semi_bias():
    layer, x = random_layer(), draw(7, 12)
    constant = qk_ov.match(qk_ov.constant_pattern(layer)[:, None], x, layer.channel)[:, 0]
    torch.testing.assert_close(constant, semi_bias(x, layer), **CLOSE)


def test_gauge_changes_factors_and_nothing_else():
    layer, x = random_layer(), draw(7, 12)
    other = qk_ov.change_gauge(layer, draw(3, 4, 4, seed=5), draw(3, 4, 4, seed=6))
    for name in ("W_Q", "W_K", "b_Q", "b_K", "W_V", "W_O", "b_V"):
        assert (getattr(other, name) - getattr(layer, name)).abs().max() > 0.1
    torch.testing.assert_close(compute_scores(x, other), compute_scores(x, layer), **CLOSE)
    torch.testing.assert_close(attend(x, other).output, attend(x, layer).output, **CLOSE)
    torch.testing.assert_close(qk_ov.constant_pattern(other), qk_ov.constant_pattern(layer), **CLOSE)
    torch.testing.assert_close(qk_ov.ov_matrix(other), qk_ov.ov_matrix(layer), **CLOSE)
    assert qk_ov.change_gauge(layer) is layer


def test_gauge_refuses_singular_matrices():
    with pytest.raises(ValueError, match="H must be invertible"):
        qk_ov.change_gauge(random_layer(), None, torch.ones(3, 4, 4, dtype=torch.float64))


def test_rotary_scores_use_one_matrix_an_offset():
    layer, x = random_layer(), draw(6, 12)
    bare = replace(layer, b_Q=0 * layer.b_Q, b_K=0 * layer.b_K)
    scores = positional_encodings.rotary_scores(x, bare)
    for m in range(6):
        for n in range(6):
            W_P = qk_ov.rotary_qk_matrix(layer, m - n)
            torch.testing.assert_close(scores[:, m, n], torch.einsum("d,hde,e->h", x[m], W_P, x[n]) / 2, **CLOSE)
    torch.testing.assert_close(qk_ov.rotary_qk_matrix(layer, 0), qk_ov.qk_matrix(layer), **CLOSE)


def test_rotation_turns_the_first_half_into_the_second():
    quarter = positional_encodings.rotation(math.pi / 2, 4, base=1.0)  # base 1: all pairs turn alike
    due = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1], [-1, 0, 0, 0], [0, -1, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(quarter, due, **CLOSE)


def test_rotary_matrices_span_as_many_dimensions_as_channels():
    layer = random_layer()
    stack = torch.stack([qk_ov.rotary_qk_matrix(layer, o, base=20.0)[0].flatten() for o in range(-15, 16)])
    assert torch.linalg.matrix_rank(stack).item() == layer.channel


def test_remainder_of_fixed_matrices_for_all_offsets():
    channel, offsets = 8, 12
    stack = torch.stack([positional_encodings.rotation(o, channel, 20.0).flatten() for o in range(offsets)])
    left = qk_ov.rotary_remainder(offsets, channel, 20.0)
    mean_only = (stack - stack.mean(0)).square().sum() / stack.square().sum()
    assert left[0] ** 2 <= mean_only + 1e-12
    U, S, V = torch.linalg.svd(stack, full_matrices=False)
    for k in (1, 3, channel):
        due = (stack - (U[:, :k] * S[:k]) @ V[:k]).norm() / stack.norm()
        torch.testing.assert_close(left[min(k, len(left)) - 1], due, rtol=1e-6, atol=1e-7)
    assert left[-1] < 1e-7


def test_refusals():
    with pytest.raises(ValueError, match="offsets must be"):
        qk_ov.rotary_remainder(0, 4)
    with pytest.raises(ValueError, match="channel must be even"):
        positional_encodings.rotation(1.0, 3)
    with pytest.raises(ValueError, match="base positive"):
        positional_encodings.rotation(1.0, 4, -2.0)
    with pytest.raises(ValueError, match="width of a head"):
        qk_ov.match(draw(1, 2, 3), draw(2, 3), 0)
