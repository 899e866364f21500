r"""Rank: of a matrix, of a matrix after LayerNorm, and what is left of it after many layers.

What belongs here: numerical ranks with their tolerance, the condition under which centring costs a rank, the residual
of a set of rows from their mean. What does not: the forward pass (``encoder``), search among matrices (``smallest``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.axes import EncoderLayer, LayerNormWeights, Residual, check_real
from analysis.encoder import Switches, encode, random_layers
from analysis.layernorm import centre, divisor, sigma


@dataclass(frozen=True)
class NumericalRank:
    """A rank and the evidence for it: singular values are counted above ``cutoff``.

    ``kept`` is the smallest counted, ``dropped`` the largest not counted (0 where none), both as shares of the
    largest singular value. The rank can be trusted where ``kept`` and ``dropped`` lie far apart.
    """

    rank: int
    cutoff: float
    kept: float
    dropped: float


def numerical_rank(x: Float[Tensor, "row column"], cutoff: float | None = None) -> NumericalRank:
    """Count the singular values above ``cutoff`` times the largest.

    Parameters
    ----------
    x
        One matrix in float32 or float64; computed in float64.
    cutoff
        Relative, from 0 to below 1; unless given, ``max(row, column)`` times the machine epsilon of ``x``'s own dtype,
        so that what was computed in float32 is judged by float32.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is not one matrix of finite floating numbers with a row and a column, or ``cutoff`` is out of range.

    Examples
    --------
    >>> numerical_rank(torch.tensor([[1.0, 1.0], [1.0, 1.0]])).rank
    1
    """
    _check_matrix(x)
    if cutoff is None:
        cutoff = max(x.shape) * torch.finfo(x.dtype).eps
    if not 0 <= cutoff < 1:
        raise ValueError(f"cutoff must be at least 0 and below 1, a share of the largest singular value; got {cutoff}")
    s = torch.linalg.svdvals(x.double() / x.abs().max().clamp_min(torch.finfo(x.dtype).tiny))
    if s[0] == 0:
        return NumericalRank(0, cutoff, 0.0, 0.0)
    s = s / s[0]
    rank = int((s > cutoff).sum())
    return NumericalRank(rank, cutoff, float(s[rank - 1]), float(s[rank]) if rank < len(s) else 0.0)


def _check_matrix(x: Tensor) -> None:
    check_real("x", x, "row", "column")
    if x.ndim != 2:
        raise ValueError(f"x must be one matrix (row, column), got shape {tuple(x.shape)}")


def distance_of_ones(x: Float[Tensor, "row column"], cutoff: float | None = None) -> float:
    """Return the sine of the angle between the all-one row and the row space of ``x``: 0 if it lies in it, at most 1.

    Examples
    --------
    The rows (1, 0) and (0, 1) span everything; the row (1, -1) is orthogonal to (1, 1):

    >>> distance_of_ones(torch.eye(2)), distance_of_ones(torch.tensor([[1.0, -1.0]]))
    (0.0, 1.0)
    """
    rank = numerical_rank(x, cutoff).rank
    _, _, rows = torch.linalg.svd(x.double(), full_matrices=False)
    ones = x.new_full((x.shape[1],), x.shape[1] ** -0.5, dtype=torch.float64)
    rest = ones - rows[:rank].mT @ (rows[:rank] @ ones)
    length = rest.norm().item()
    return 0.0 if length < 1e-12 else min(length, 1.0)


def centred_rank(x: Float[Tensor, "row column"], cutoff: float | None = None, near: float = 1e-7) -> int:
    r"""Predict the rank after LayerNorm's centring: rank X less 1 if :math:`\mathbf 1` lies in the row space of X.

    .. math::  \mathrm{rank}(XC) = \mathrm{rank}\,X - [\mathbf 1_d \in \mathscr R(X)],
               \qquad C = I - \mathbf 1\mathbf 1^T/d

    Parameters
    ----------
    x
        The matrix that LayerNorm reads.
    cutoff
        As in ``numerical_rank``.
    near
        The all-one row counts as lying in the row space where the sine of the angle is below this.

    Notes
    -----
    Ledger B-28, B-35, B-36: the paper holds that LayerNorm keeps the rank.

    Examples
    --------
    >>> centred_rank(torch.eye(2)), centred_rank(torch.tensor([[1.0, -1.0]]))
    (1, 1)
    """
    return numerical_rank(x, cutoff).rank - int(distance_of_ones(x, cutoff) < near)


class NormRanks(NamedTuple):
    """Ranks on the way through one LayerNorm: what it reads, centred, divided by sigma, with gain, with bias."""

    read: NumericalRank
    centred: NumericalRank
    divided: NumericalRank
    with_gain: NumericalRank
    with_bias: NumericalRank


def ranks_through_norm(x: Float[Tensor, "row column"], norm: LayerNormWeights) -> NormRanks:
    """Take the rank after each step of a LayerNorm.

    Notes
    -----
    Ledger B-28, B-30, B-31, B-37.

    Examples
    --------
    Centring costs the rank that the bias gives back:

    >>> norm = LayerNormWeights(torch.ones(2), torch.tensor([1.0, 0.0]), eps=1e-12)
    >>> [step.rank for step in ranks_through_norm(torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 3.0]]), norm)]
    [2, 1, 1, 1, 2]
    """
    _check_matrix(x)
    if x.shape[1:] != norm.gain.shape or x.dtype != norm.gain.dtype:
        raise ValueError(f"x must be (row, {len(norm.gain)}) in {norm.gain.dtype} to fit the LayerNorm, got "
                         f"{tuple(x.shape)} in {x.dtype}")
    if norm.eps == 0 and (centre(x) == 0).all(1).any():
        raise ValueError("x has a constant row, which LayerNorm with eps = 0 divides by 0")
    divided = centre(x) / divisor(x, norm.eps, "x")
    steps = (x, centre(x), divided, divided * norm.gain, divided * norm.gain + norm.bias)
    return NormRanks(*(numerical_rank(step) for step in steps))


def residual(x: Float[Tensor, "*any row column"]) -> Float[Tensor, "*any"]:
    r"""Return how far rows are from being all the same: :math:`\|X - \mathbf 1 \bar x^T\|_F / \|X\|_F`, 0 to 1.

    0 means that every row is the mean row, so rank 1 (or 0, where all are zero); rows of mean zero give 1.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is not of finite floating numbers, or has no row or column.

    Notes
    -----
    Ledger B-25, B-26; the residual of Dong et al. 2021, in the Frobenius norm and relative to X.

    Examples
    --------
    >>> residual(torch.tensor([[2.0, 2.0], [2.0, 2.0]])), residual(torch.tensor([[1.0], [-1.0]]))
    (tensor(0.), tensor(1.))
    """
    check_real("x", x, "row", "column")
    x = x / x.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)  # squares stay in range
    size = x.flatten(-2).norm(dim=-1)
    return (x - x.mean(-2, keepdim=True)).flatten(-2).norm(dim=-1) / torch.where(size > 0, size, 1)


def trace_residual(x: Residual, layers: Sequence[EncoderLayer], switches: Switches,
                   activation: Callable[[Tensor], Tensor] = gelu) -> Float[Tensor, " state"]:
    """Follow the residual through a stack: what each layer reads and what the last one writes."""
    return torch.stack([residual(state) for state in encode(x, layers, switches, activation)])


def random_collapse(width: int, gain: float, seed: int, switches: Sequence[Switches], *, depth: int = 12,
                    heads: int = 4, rows: int = 32, activation: Callable[[Tensor], Tensor] = gelu,
                    device: torch.device | str = "cpu") -> Float[Tensor, "switch state"]:
    """Follow the residual through one random stack under several switches, from the same normalised random rows.

    Layers and rows are drawn on the CPU, the same for every ``device``, and computed with there.

    Notes
    -----
    Ledger B-25, B-26. The same weights serve every switch, so differences between switches are paired.
    """
    g = torch.Generator().manual_seed(seed)
    layers = [layer.to(device) for layer in random_layers(depth, heads, width, gain=gain, generator=g)]
    x = centre(torch.randn(rows, width, generator=g, dtype=torch.float64).to(device))
    x = x / sigma(x)[:, None]
    return torch.stack([trace_residual(x, layers, switch, activation) for switch in switches])


def cubic_rate(sizes: Float[Tensor, " size"], residuals: Float[Tensor, " size"]) -> float:
    """Return the slope of log residual after a layer against log residual before it; 3 is Dong et al.'s rate.

    Raises
    ------
    ValueError
        If there are not at least two different sizes and as many residuals, all positive and finite.

    Examples
    --------
    >>> x = torch.tensor([0.1, 0.01, 0.001])
    >>> round(cubic_rate(x, 5 * x**3), 3)
    3.0
    """
    for name, values in (("sizes", sizes), ("residuals", residuals)):
        check_real(name, values, "size")
        if not (values > 0).all() or values.shape != sizes.shape:
            raise ValueError(f"{name} must be positive, as many as sizes; got {values.tolist()}")
    if len(sizes.unique()) < 2:
        raise ValueError(f"sizes must hold two different numbers to fit a slope, got {sizes.tolist()}")
    slope, _ = np.polyfit(*(values.double().log().cpu().numpy() for values in (sizes, residuals)), 1)
    return float(slope)


def scatter_around_mean(mean: Float[Tensor, " model"], noise: Float[Tensor, "position model"],
                        size: float) -> Float[Tensor, "position model"]:
    """Place rows around a common row so that their ``residual`` has the given size (``0 < size < 1``).

    Raises
    ------
    TypeError, ValueError
        If ``size`` is outside the open interval from 0 to 1, ``mean`` is zero, the rows of ``noise`` are all the same,
        or the two do not fit each other.
    """
    if not 0 < size < 1:
        raise ValueError(f"size must lie strictly between 0 and 1, got {size}")
    check_real("mean", mean, "model")
    check_real("noise", noise, "position", "model")
    if noise.ndim != 2 or mean.shape != noise.shape[1:] or mean.dtype != noise.dtype:
        raise ValueError(f"mean must be (model,) and noise (position, model) in one dtype, got {tuple(mean.shape)} in "
                         f"{mean.dtype} and {tuple(noise.shape)} in {noise.dtype}")
    noise = noise - noise.mean(0)
    common = torch.ones_like(noise[:, :1]) * mean
    lengths = common.norm(), noise.norm()
    if not all(0 < length < math.inf for length in lengths):
        raise ValueError("mean must not be zero, and noise must have rows that differ: else no other residual than 1 "
                         "or 0 can be had; and neither may be too large for its dtype")
    return common + noise * (lengths[0] / lengths[1] * size / (1 - size**2) ** 0.5)
