"""The bordered matrices of a rotary score, and its parts against the modules of transformers; what a gauge leaves."""

from dataclasses import replace

import pytest
import torch

from analysis.decomposition.bilinear_form import homogeneous
from analysis.decomposition.terms import score_terms
from book.lab.mathematics.rotary_product import change_gauge, rotary_border
from book.lab.reference_modules import rotary_module_scores
from tests.analysis.decomposition import test_rotary_channels as channels
from tests.analysis.decomposition.test_rotary_channels import HEADS, draw, turn, turned

layer, x = channels.layer, channels.x  # fixtures


@pytest.mark.parametrize(
    ("family", "coordinates", "factor"),
    [("gpt_neox", 4, 1.0), ("gpt_neox", 16, 1.0), ("phi", 8, 1.0), ("qwen2", 16, 1.0), ("qwen2", 16, 1.1)],
)
def test_four_parts_sum_to_the_scores_of_the_modules(family, coordinates, factor, layer, x):
    rotary = turn(coordinates, factor=factor)
    scores = rotary_module_scores(family, layer, rotary, x)
    assert (score_terms(x, turned(layer, rotary)).total() - scores).abs().max() < 1e-12
    border = rotary_border(turned(layer, rotary))
    extended = homogeneous(x)
    for i, j in ((0, 0), (3, 5), (8, 1)):
        by_border = torch.einsum("bm,hmn,bn->bh", extended[:, i], border.at(i - j), extended[:, j])
        assert (by_border - scores[:, :, i, j]).abs().max() < 1e-12


def test_grouped_keys_are_repeated_keys(layer, x):
    names = ("W_K", "b_K", "W_V", "b_V")
    grouped = replace(turned(layer, turn(16)), **{name: getattr(layer, name)[::2] for name in names})
    repeated = replace(layer, **{name: getattr(grouped, name).repeat_interleave(2, 0) for name in names})
    scores = rotary_module_scores("qwen2", repeated, turn(16), x, groups=2)
    for each in (grouped, turned(repeated, turn(16))):
        assert (score_terms(x, each).total() - scores).abs().max() < 1e-12
    assert torch.equal(rotary_border(grouped).rest, rotary_border(turned(repeated, turn(16))).rest)


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_a_gauge_changes_weights_and_no_score(pairing, layer, x):
    layer = turned(layer, turn(4, pairing))
    factors = torch.complex(draw(HEADS, 2, seed=20), draw(HEADS, 2, seed=21))
    matrix = draw(HEADS, 12, 12, seed=22)
    other = change_gauge(layer, factors, matrix)
    assert (other.b_Q - layer.b_Q).abs().max() > 0.1
    assert torch.allclose(other.W_Q[..., 4:], layer.W_Q[..., 4:] @ matrix), "what is not turned has its own matrix"
    assert torch.allclose(score_terms(x, other).stack(), score_terms(x, layer).stack(), atol=1e-10)
    mixed = replace(
        layer, W_Q=layer.W_Q.flip(-1), W_K=layer.W_K.flip(-1), b_Q=layer.b_Q.flip(-1), b_K=layer.b_K.flip(-1)
    )  # a permutation, which does not commute with the rotation
    assert (score_terms(x, mixed).total() - score_terms(x, layer).total()).abs().max() > 0.1


def test_what_does_not_fit_is_refused(layer, x):
    with pytest.raises(ValueError, match="layer must have rotary positions, got positions of kind 'none'"):
        rotary_border(layer)
    with pytest.raises(ValueError, match="factors must be complex"):
        change_gauge(turned(layer, turn(16)), torch.ones(HEADS, 8))
    with pytest.raises(ValueError, match="factors must not be 0"):
        change_gauge(turned(layer, turn(16)), torch.zeros(HEADS, 8, dtype=torch.complex128))
