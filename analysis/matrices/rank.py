"""Ranks: numerical, of a matrix, of its centred rows and of what a LayerNorm makes of it; effective and stable."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import Norm
from analysis.core.checks import has_numbers
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked
from analysis.transformer.layernorm import centre, check_layer_norm, divisor


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


@checked(finite=True, gradient=False)
def numerical_rank(x: Float[Tensor, "row column"], cutoff: float | None = None) -> NumericalRank:
    """Count the singular values above ``cutoff`` times the largest.

    Parameters
    ----------
    x
        One matrix in float32 or float64; computed in float64.
    cutoff
        Relative, from 0 to below 1; unless given, ``max(row, column)`` times the machine epsilon of ``x``'s own dtype,
        so that what was computed in float32 is judged by float32.

    Examples
    --------
    >>> numerical_rank(torch.tensor([[1.0, 1.0], [1.0, 1.0]])).rank
    1
    """
    if cutoff is None:
        cutoff = max(x.shape) * torch.finfo(x.dtype).eps
    if not 0 <= cutoff < 1:
        raise ValueError(f"cutoff must be at least 0 and below 1, a share of the largest singular value; got {cutoff}")
    s = torch.linalg.svdvals(scale_to_one(x.double(), (0, 1))[0])
    if s[0] == 0:
        return NumericalRank(0, cutoff, 0.0, 0.0)
    s = s / s[0]
    rank = int((s > cutoff).sum())
    return NumericalRank(rank, cutoff, float(s[rank - 1]), float(s[rank]) if rank < len(s) else 0.0)


@checked(finite=True, gradient=False)
def distance_of_ones(x: Float[Tensor, "row column"], cutoff: float | None = None) -> float:
    """Return the sine of the angle between the all-one row and the row space of ``x``: 0 if it lies in it, at most 1.

    Where it lies in the row space, LayerNorm's centring costs a rank, which "The geometry of BERT", section 3.2, holds
    that it keeps; else it costs none.

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


class NormRanks(NamedTuple):
    """Ranks on the way through one LayerNorm: what it reads, centred, divided by sigma, with gain, with bias."""

    read: NumericalRank
    centred: NumericalRank
    divided: NumericalRank
    with_gain: NumericalRank
    with_bias: NumericalRank


@checked(finite=True, gradient=False)
def ranks_through_norm(x: Float[Tensor, "row model"], norm: Norm) -> NormRanks:
    """Take the rank after each step of a LayerNorm.

    Notes
    -----
    "The geometry of BERT", section 3.2, (3.8).

    Examples
    --------
    Centring costs the rank that the bias gives back:

    >>> norm = Norm(torch.ones(2), torch.tensor([1.0, 0.0]), eps=1e-12)
    >>> [step.rank for step in ranks_through_norm(torch.tensor([[1.0, 0.0], [0.0, 2.0],
    ...                                                         [1.0, 3.0]]), norm)]
    [2, 1, 1, 1, 2]
    """
    check_layer_norm(norm)
    if norm.eps == 0 and (centre(x) == 0).all(1).any():
        raise ValueError("x has a constant row, which LayerNorm with eps = 0 divides by 0")
    divided = centre(x) / divisor(x, norm.eps, "x")
    steps = (x, centre(x), divided, divided * norm.gain, divided * norm.gain + norm.bias)
    return NormRanks(*(numerical_rank(step) for step in steps))


def _check_singular_values(values: Tensor) -> None:
    if has_numbers(values) and (values < 0).any():
        raise ValueError("values must be singular values, none negative; of a matrix give torch.linalg.svdvals(matrix)")


@checked(finite=True)
def effective_rank(values: Float[Tensor, "*batch channel"]) -> Float[Tensor, "*batch"]:
    r"""Return ``(sum s^2)^2 / sum s^4`` of singular values ``s``: how many of them share the square of the norm.

    ``channel`` where all are equal, 1 where one has all, 0 where all are zero. Raises for entries
    that are negative or not finite: a matrix is not its singular values.

    >>> effective_rank(torch.tensor([[2.0, 2.0, 0.0], [3.0, 0.0, 0.0],
    ...                              [0.0, 0.0, 0.0]]))
    tensor([2., 1., 0.])
    """
    _check_singular_values(values)
    squares = scale_to_one(values, -1)[0].square()
    total = squares.square().sum(-1)
    return squares.sum(-1).square() / total.masked_fill(total == 0, 1)


@checked(finite=True)
def stable_rank(values: Float[Tensor, "*batch channel"]) -> Float[Tensor, "*batch"]:
    r"""Return ``sum s^2 / max s^2`` of singular values ``s``: the Frobenius over the spectral norm, squared.

    ``channel`` where all are equal, 1 where one has all, 0 where all are zero; never more than the rank. Raises for
    entries that are negative or not finite.

    >>> stable_rank(torch.tensor([[2.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    tensor([2.0000, 1.2500, 0.0000])
    """
    _check_singular_values(values)
    squares = scale_to_one(values, -1)[0].square()
    largest = squares.amax(-1)
    return squares.sum(-1) / largest.masked_fill(largest == 0, 1)
