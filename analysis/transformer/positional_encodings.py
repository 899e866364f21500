"""Positional encodings that are formulas: sinusoidal positions, and rotary positions with their scores."""

import math

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual, Scores
from analysis.core.signatures import checked
from analysis.transformer.attention import project


def sinusoidal_positions(
    length: int, model: int, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "position model"]:
    r"""Return the fixed positions of the original Transformer, sines in even and cosines in odd channels.

    .. math::  p_{t,2i} = \sin(t\,\omega_i), \quad p_{t,2i+1} = \cos(t\,\omega_i), \quad \omega_i = 10000^{-2i/d}

    Every row has norm ``sqrt(model / 2)`` and the product of two rows depends on their distance alone.

    Raises
    ------
    ValueError
        If ``model`` is odd.

    Notes
    -----
    Vaswani et al. 2017; (2.1) and (2.2) of "The geometry of BERT". BERT does not use them.
    """
    if model % 2:
        raise ValueError(f"model must be even, got {model}")
    angle = torch.outer(torch.arange(length, dtype=dtype), 10000.0 ** (-torch.arange(0, model, 2, dtype=dtype) / model))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


@checked(finite=True, gradient=False)
def toeplitz_defect(gram: Float[Tensor, "position position"]) -> float:
    r"""Return relative Frobenius distance to the nearest Toeplitz matrix: :math:`\|G - T\|_F / \|G\|_F`.

    ``T`` has the mean of each diagonal of ``G`` along that diagonal, so 0 means that an entry depends on
    ``row - column`` alone. Raises for a matrix of zeros.

    Examples
    --------
    >>> toeplitz_defect(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    0.0
    >>> toeplitz_defect(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    1.0
    """
    if not gram.any():
        raise ValueError("gram must not be zero")
    size, gram = len(gram), gram.double()  # in float32 the squares of small entries vanish
    place = torch.arange(size, device=gram.device)
    offset = place[:, None] - place + size - 1
    sums = gram.new_zeros(2 * size - 1).scatter_add_(0, offset.flatten(), gram.flatten())
    means = sums / torch.bincount(offset.flatten(), minlength=2 * size - 1)
    return ((gram - means[offset]).norm() / gram.norm()).item()


def rotation(
    offset: float | int, channel: int, base: float | int = 10000.0, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "channel channel"]:
    r"""Build the matrix by which rotary embeddings turn a row vector at position ``offset``.

    Coordinates ``f`` and ``f + channel / 2`` turn by ``offset * base^(-2 f / channel)`` radians (the convention of
    Llama). A query at ``m`` meets a key at ``n`` through ``R(m) R(n)^T = R(m - n)``.

    >>> torch.allclose(rotation(1.0, 2) @ rotation(2.0, 2), rotation(3.0, 2))
    True
    """
    if channel % 2 or channel < 2:
        raise ValueError(f"channel must be even for rotary embeddings, and at least 2, got {channel}")
    if not (math.isfinite(offset) and math.isfinite(base) and base > 0):
        raise ValueError(f"offset must be finite and base positive and finite, got {offset} and {base}")
    angle = offset * base ** (-torch.arange(0, channel, 2, dtype=torch.float64) / channel)
    cos, sin = angle.cos().diag(), angle.sin().diag()
    return torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)]).to(dtype)


@checked
def rotary_scores(x: Residual, weights: AttentionLayer, base: float | int = 10000.0) -> Scores:
    r"""Score with rotary embeddings, biases included: ``(x_m W_Q + b_Q) R(m - n) (x_n W_K + b_K)^T / sqrt(channel)``.

    Notes
    -----
    Here ``b_K`` matters: ``(x_m W_Q + b_Q) R(m - n) b_K^T`` depends on the key's position.
    """
    weights = weights.plain()
    turns = torch.stack([rotation(float(m), weights.channel, base, x.dtype) for m in range(x.shape[-2])]).to(x)
    bare = project(x, weights.W_Q, weights.b_Q), project(x, weights.W_K, weights.b_K)
    queries, keys = (
        einsum(rows, turns, "... head position channel, position channel out -> ... head position out") for rows in bare
    )
    scores = einsum(queries, keys, "... head query channel, ... head key channel -> ... head query key")
    return scores / math.sqrt(weights.channel)
