"""Rotary scores in four parts: the parts sum to the modules of transformers, and only one piece of b_K cancels."""

import math
from dataclasses import replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from analysis.decomposition.rotary_channels import drop_cancelling_bias, split_channels
from analysis.decomposition.rotary_kernel import Kernel, distance_kernel
from analysis.decomposition.terms import score_terms
from analysis.models.key_bias import CASES, key_bias_effect
from analysis.transformer.attention import mask_future, softmax
from analysis.transformer.positional_encodings import rotary_scores
from analysis.transformer.rotary_scaling import rotary_frequencies

HEADS, CHANNEL, POSITIONS = 4, 16, 9
MODEL = HEADS * CHANNEL


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def layer() -> AttentionLayer:
    shapes = [(HEADS, MODEL, CHANNEL)] * 3 + [(HEADS, CHANNEL, MODEL)] + [(HEADS, CHANNEL)] * 3 + [(MODEL,)]
    return AttentionLayer(*(draw(*shape, seed=seed) / MODEL**0.25 for seed, shape in enumerate(shapes)))


@pytest.fixture
def x() -> Float[Tensor, "batch position model"]:
    return draw(2, POSITIONS, MODEL, seed=10)


def turned(layer: AttentionLayer, rotary: Rotary) -> AttentionLayer:
    return replace(layer, positions=rotary)


def turn(coordinates: int, pairing: str = "halves", factor: float = 1.0) -> Rotary:
    return Rotary(rotary_frequencies(coordinates), CHANNEL, pairing, attention_factor=factor)


def test_the_full_rotation_is_that_of_the_chapter_on_patterns(layer, x):
    assert torch.allclose(score_terms(x, turned(layer, turn(16))).total(), rotary_scores(x, layer), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
@pytest.mark.parametrize("coordinates", [4, 16])
def test_the_kernel_is_a_sum_of_cosines_of_distance(pairing, coordinates, layer, x):
    rotary = turn(coordinates, pairing, 1.2)
    terms, place = score_terms(x, turned(layer, rotary)), torch.arange(POSITIONS)
    kernel = distance_kernel(layer.b_Q, layer.b_K, rotary)
    distance = (place[:, None] - place).double().flatten()
    assert torch.allclose(kernel.at(distance).view(terms.kernel[0].shape), terms.kernel[0], rtol=0, atol=1e-13)
    step = 1e-6
    ends = kernel.at(torch.tensor([3 - step, 3 + step], dtype=torch.float64))
    assert torch.allclose(kernel.slope(3.0), (ends[:, 1] - ends[:, 0]) / (2 * step), atol=1e-8)
    best = kernel.preferred()
    assert (best >= 0).all()
    assert torch.allclose((kernel.frequencies * best + kernel.phase).cos(), torch.ones_like(best))


def test_equal_biases_prefer_distance_nought(layer):
    kernel = distance_kernel(layer.b_Q, layer.b_Q, turn(16))
    assert kernel.phase.abs().max() < 1e-12
    assert (kernel.at(torch.arange(500.0, dtype=torch.float64)).argmax(1) == 0).all()


def test_what_is_not_turned_cancels_and_nothing_else(layer, x):
    layer = turned(layer, turn(4))
    before = softmax(mask_future(score_terms(x, layer).total()))
    without = softmax(mask_future(score_terms(x, drop_cancelling_bias(layer)).total()))
    assert (before - without).abs().max() < 1e-14
    kept, rest = split_channels(layer.b_K, layer.positions)
    assert torch.equal(kept + rest, layer.b_K)
    only_rest = softmax(mask_future(score_terms(x, replace(layer, b_K=rest)).total()))
    assert (before - only_rest).abs().max() > 0.01


def test_where_the_key_bias_cancels_in_the_modules_of_transformers():
    changes = {case: key_bias_effect(case) for case in CASES}
    free = {"gpt2", "bloom", "gpt_neox, rest", "qwen2, no rotation"}
    for case, (change, single) in changes.items():
        if case in free:
            assert change < (1e-6 if single else 1e-12), case
        else:
            assert change > 1e-4, case


def test_what_does_not_fit_is_refused(layer, x):
    narrow = Rotary(rotary_frequencies(4), 8)
    with pytest.raises(ValueError, match=r"positions must turn heads of width 16 to fit W_Q, got .* width 8"):
        turned(layer, narrow)
    with pytest.raises(ValueError, match="layer must have rotary positions, got positions of kind 'none'"):
        drop_cancelling_bias(layer)
    with pytest.raises(ValueError, match="nothing inside its attention but a rotation: it has sinks"):
        drop_cancelling_bias(replace(turned(layer, turn(4)), sinks=layer.b_Q[:, 0]))
    for call in (lambda: split_channels(layer.b_K, narrow), lambda: distance_kernel(layer.b_Q, layer.b_K, narrow)):
        with pytest.raises(ValueError, match="rotary must turn heads of width 16"):
            call()
    with pytest.raises(ValueError, match="case must be one of"):
        key_bias_effect("gpt5")


def test_the_slope_of_slow_frequencies_by_hand():
    kernel = Kernel(
        torch.tensor([[3.0, 5.0], [2.0, 0.0]], dtype=torch.float64),
        torch.tensor([[torch.pi / 6, torch.pi / 2], [-torch.pi / 2, 0.0]], dtype=torch.float64),
        torch.tensor([0.5, 2.0], dtype=torch.float64),
        torch.tensor([7.0, 8.0], dtype=torch.float64),
    )
    # minus the sum of amplitude times frequency times the sine of the phase
    assert kernel.slope().tolist() == pytest.approx([-(3 * 0.5 * 0.5 + 5 * 2 * 1), 2 * 0.5])
    for limit in (1.0, 2.0):  # a frequency at the limit is left out
        assert kernel.slope(slower_than=limit).tolist() == pytest.approx([-0.75, 1.0])
    assert kernel.slope(torch.pi, 1.0).tolist() == pytest.approx([-1.5 * math.sin(torch.pi * 2 / 3), 0.0], abs=1e-12)
    assert kernel.preferred()[1].tolist() == pytest.approx([torch.pi, 0.0])
