"""How far a head stretches rows: amplification measured row by row, and the direction cone.

What belongs here: norms of rows before and after ``W_Q``, ``W_K``, ``W_V``. What does not: comparing two rows
(:mod:`analysis.matrices.symmetry`), singular values alone (:mod:`analysis.matrices.spectra`).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked
from analysis.matrices.spectra import Factor, singular_values, spectral_norm
from analysis.transformer.attention import project

MAPS = ("Q", "K", "V")
"""The order of the axis ``map``."""


@checked(finite=True)
def row_norms(x: Residual, weights: AttentionLayer, head: int) -> Float[Tensor, "kind *batch position"]:
    """Return the norms of the rows of X and of what one head makes of them: X, Q, K, V, in this order.

    Figure 2 of "The geometry of BERT" (section 3.1), for any layer and head.
    """
    if not 0 <= head < weights.heads:
        raise ValueError(f"head must be in 0..{weights.heads - 1}, got {head}")
    images = [
        project(x, *(weights.per_head(getattr(weights, f"{part}_{m}"))[[head]] for part in "Wb"))[..., 0, :, :]
        for m in MAPS
    ]
    return torch.stack([_lengths(rows).to(x.dtype) for rows in (x, *images)])


@checked(finite=True)
def amplification(
    x: Residual, W: Factor, b: Float[Tensor, "head channel"] | None = None
) -> Float[Tensor, "*batch head position"]:
    r"""Measure by how much each row grows on its way into each head: :math:`\|x_i W + b\| / \|x_i\|`.

    Parameters
    ----------
    x
        The rows that the layer reads; a row of zeros gives ``nan``.
    W, b
        One of the layer's three maps; without ``b`` the linear part alone.

    Returns
    -------
    Tensor
        Dimensionless; above 1 the row was amplified. Never above the largest singular value when ``b`` is absent.

    "The geometry of BERT", section 3.1.

    >>> amplification(torch.tensor([[1.0, 0.0], [3.0, 4.0]]),
    ...               torch.tensor([[[2.0], [0.0]]]))
    tensor([[2.0000, 1.2000]])
    """
    out = einsum(x, W, "... position model, head model channel -> ... head position channel")
    if b is not None:
        out = out + b[:, None]
    return (_lengths(out) / _lengths(x).unsqueeze(-2)).to(x.dtype)


def _lengths(rows: Tensor) -> Tensor:
    """Return lengths in float64: in float32 the squares of small rows vanish, and those of large ones are infinite."""
    return rows.norm(dim=-1, dtype=torch.float64)


@checked(finite=True)
def mean_amplification(W: Factor) -> Float[Tensor, " head"]:
    r"""Return the root mean square stretch over all directions, :math:`\|W\|_F / \sqrt{d}`.

    For a direction drawn uniformly from the sphere the expectation of ``|x W|^2 / |x|^2`` is exactly its square.

    >>> mean_amplification(torch.tensor([[[2.0], [0.0], [0.0], [0.0]]]))
    tensor([1.])
    """
    scaled, size = scale_to_one(W, (-2, -1))
    return scaled.flatten(1).norm(dim=1) / math.sqrt(W.shape[1]) * size[:, 0, 0]


def over_heads(
    measure: Callable[[Factor], Float[Tensor, " head"]], layers: Sequence[AttentionLayer]
) -> Float[Tensor, "map layer head"]:
    """Apply a measure of one matrix to ``W_Q``, ``W_K`` and ``W_V`` of every layer: one number per map and head."""
    return torch.stack(
        [torch.stack([measure(layer.per_head(getattr(layer, f"W_{name}"))) for layer in layers]) for name in MAPS]
    )


@checked(finite=True)
def amplifications(
    states: Float[Tensor, "state position model"], layers: Sequence[AttentionLayer], *, biased: bool = True
) -> Float[Tensor, "map layer head position"]:
    """Measure ``amplification`` for every row that every layer reads, in all three maps and all heads.

    Parameters
    ----------
    states
        What each layer reads, first layer first; a last state that no layer reads may follow.
    biased
        Whether the biases count (the rows of Q, K and V) or the linear parts alone (what singular values speak of).

    "The geometry of BERT", section 3.1.
    """
    if len(states) - len(layers) not in (0, 1) or not layers:
        raise ValueError(f"states must be one for each of {len(layers)} layers, or one more; got {len(states)}")
    return torch.stack(
        [
            torch.stack(
                [
                    amplification(
                        x,
                        layer.per_head(getattr(layer, f"W_{name}")),
                        layer.per_head(getattr(layer, f"b_{name}")) if biased else None,
                    )
                    for x, layer in zip(states, layers, strict=False)
                ]
            )
            for name in MAPS
        ]
    )


@checked(finite=True, gradient=False)
def isotropic_cone_positions(W: Factor, samples: int, rng: np.random.Generator) -> Float[Tensor, "head sample"]:
    """Draw cone positions of directions that are uniform on the sphere: what chance puts into the cone.

    Only the singular values matter: with ``g`` normal, the position squared is
    ``sum(s_k^2 g_k^2) / (s_1^2 sum(g^2))``, and the directions that ``W`` sends to 0 enter as one chi-square.
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    s = singular_values(W).double().cpu().numpy()
    if not s[:, 0].all():
        raise ValueError(f"W is zero in head {s[:, 0].argmin()}: it stretches no row more than another")
    head, least = s.shape
    g = rng.standard_normal((samples, least)) ** 2
    rest = rng.chisquare(W.shape[1] - least, samples) if W.shape[1] > least else np.zeros(samples)
    squared = (s**2 / s[:, :1] ** 2) @ g.T / (g.sum(1) + rest)
    return torch.from_numpy(np.sqrt(squared)).reshape(head, samples).to(W.device)


def cone_positions(
    states: Float[Tensor, "state position model"], layers: Sequence[AttentionLayer]
) -> Float[Tensor, "map layer head position"]:
    r"""Return how near each row comes to the largest stretch, in all three maps and all heads of its layer.

    :math:`\|x_i W\| / (\sigma_1 \|x_i\|)`, from 0 to 1. The *direction cone* of aperture ``epsilon`` holds the rows at
    ``1 - epsilon`` or above: "The geometry of BERT", section 3.1, names the cone and does not define it.
    """
    return amplifications(states, layers, biased=False) / over_heads(spectral_norm, layers)[..., None]
