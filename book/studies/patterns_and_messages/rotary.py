"""Patterns under rotary embeddings: one matrix per offset, and how many fixed matrices they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.decomposition import qk_ov
from analysis.transformer import positional_encodings
from analysis.transformer.attention import mask_future, softmax
from book.lab.reference_modules import attention_module
from book.publish import Numbers
from book.publish.phrases import percent
from book.studies.shared.equality import random_layer

TOO_SMALL_TO_DRAW = 1e-7


@dataclass(frozen=True)
class Rotary(Numbers):
    """Pattern matrices under rotary embeddings: ``distance`` (offset, head) to offset 0 as a share of the norm.

    ``remainder`` is what the best 1, 2, ... fixed matrices leave of the rotations; ``errors`` are differences of
    attention maps to those of LlamaAttention.
    """

    rotary_one: str
    rotary_best: str  # what the best single matrix leaves of the variance, in per cent
    rotary_tenth: str
    offsets: np.ndarray
    distance: np.ndarray
    remainder: np.ndarray
    errors: Mapping[str, float]


def measure_rotary(layer: AttentionLayer, x: Residual, longest: int = 128) -> Rotary:
    """Compare the pattern matrices of offsets 0 to ``longest``, and hold the rotary form to LlamaAttention."""
    wide = random_layer(4, 128, 64).to(x.device)
    W_P = torch.stack([qk_ov.rotary_qk_matrix(wide, offset) for offset in range(longest + 1)])
    distance = ((W_P - W_P[0]).norm(dim=(2, 3)) / W_P[0].norm(dim=(1, 2))).cpu().numpy()
    remainder = qk_ov.rotary_remainder(longest + 1, 64).numpy()
    _, llama = attention_module("llama", layer)(x)
    maps = {
        "rotary form": positional_encodings.rotary_scores(x, layer),
        "no b_K": positional_encodings.rotary_scores(x, replace(layer, b_K=0 * layer.b_K)),
        "one W_P": qk_ov.match(qk_ov.patterns(x, layer), x, layer.channel),
    }
    errors = {name: (softmax(mask_future(scores)) - llama).abs().max().item() for name, scores in maps.items()}
    return Rotary(
        rotary_one=f"{distance[1].mean():.2f}",
        rotary_best=percent(remainder[0] ** 2),
        rotary_tenth=str(int((remainder >= 0.1).sum()) + 1),
        offsets=np.arange(longest + 1),
        distance=distance,
        remainder=remainder[remainder > TOO_SMALL_TO_DRAW],
        errors=errors,
    )
