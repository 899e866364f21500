"""The chapter's identities held to modules of transformers, and where the key bias cancels in them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from analysis.core.positions import Rotary
from analysis.decomposition.bilinear_form import homogeneous
from analysis.decomposition.rotary_channels import split_channels
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.decomposition.terms import score_terms
from analysis.maps.attribution import attribute_divergence
from analysis.models.key_bias import CASES, Effect, key_bias_effect
from analysis.transformer.rotary_scaling import rotary_frequencies
from book.lab.mathematics.rotary_product import change_gauge, rotary_border
from book.lab.rotary_modules import rotary_module_scores
from book.publish import Numbers
from book.studies.shared.equality import draw, random_layer, relative_gap

EXACT, SINGLE = 1e-12, 1e-6
"""Bounds of errors in float64, and where the module computes its softmax in float32."""
HEADS, CHANNEL, POSITIONS = 4, 16, 12
MODULES = {
    "GPT-NeoX, a quarter turned": ("gpt_neox", 4),
    "GPT-NeoX, all turned": ("gpt_neox", 16),
    "Phi, half turned": ("phi", 8),
    "Qwen2, all turned": ("qwen2", 16),
}


@dataclass(frozen=True)
class Exactness(Numbers):
    """Largest errors as a share of the largest score, by module; and what a zero key bias changes, by case.

    ``rest_share`` is the largest share of the un-rotated key bias in a row's divergence from uniform, in nats, and
    ``turned_share`` the largest of the query side and the kernel.
    """

    prefix = "rb"

    parts: Mapping[str, float]
    kernel: float
    border: float
    gauge: float
    key_bias: Mapping[str, Effect]
    rest_share: float
    turned_share: float


def measure_exactness() -> Exactness:
    """Hold the parts, the kernel, the border and its gauge to modules with random weights, in float64."""
    layer, x = random_layer(HEADS, HEADS * CHANNEL, CHANNEL), draw(1, POSITIONS, HEADS * CHANNEL)
    errors = {}
    for name, (family, coordinates) in MODULES.items():
        scores = rotary_module_scores(family, layer, _turn(coordinates), x)
        errors[name] = relative_gap(score_terms(x, replace(layer, positions=_turn(coordinates))).total(), scores)
    rotary = _turn(4)
    layer = replace(layer, positions=rotary)
    terms = score_terms(x, layer)
    total, place = terms.total(), torch.arange(POSITIONS, dtype=torch.float64)
    kernel = distance_kernel(layer.b_Q, layer.b_K, rotary).at(place)
    border, extended = rotary_border(layer), homogeneous(x)[0]
    last = torch.stack(
        [torch.einsum("m,hmn,n->h", extended[-1], border.at(POSITIONS - 1 - j), extended[j]) for j in range(POSITIONS)],
        -1,
    )
    factors = torch.complex(draw(HEADS, 2, seed=2), draw(HEADS, 2, seed=3))
    other = change_gauge(layer, factors, draw(HEADS, CHANNEL - 4, CHANNEL - 4, seed=4))
    visible = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).tril()
    rest = score_terms(x, replace(layer, b_K=split_channels(layer.b_K, rotary)[1]))
    cancelling = (rest.query_side + rest.kernel)[None]
    shares = attribute_divergence(torch.cat([terms.stack(), cancelling, -cancelling]), visible).parts
    return Exactness(
        errors,
        relative_gap(kernel, terms.kernel[0, :, :, 0]),
        relative_gap(last, total[0, :, -1]),
        relative_gap(score_terms(x, other).total(), total),
        {case: key_bias_effect(case) for case in CASES},
        rest_share=float(shares[5].abs().max()),
        turned_share=float(shares[3:5].abs().max()),
    )


def cancels(effect: Effect) -> bool:
    """Whether a module's attention changes by rounding alone."""
    return effect.change < (SINGLE if effect.single else EXACT)


def _turn(coordinates: int) -> Rotary:
    return Rotary(rotary_frequencies(coordinates), CHANNEL)
