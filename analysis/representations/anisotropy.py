r"""How far do the rows of a matrix point the same way? The paper's cone index and forms of it that can be compared.

What belongs here: lengths of sums, mean cosines, singular values of a head's output. What does not: whose rows they
are, and distributions of coordinates (:mod:`analysis.representations.normality`).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.axes import Attention, Projected
from analysis.core.checks import check_floating, check_real


def _checked(rows: Tensor, keep: Tensor | None) -> Tensor:
    """Refuse what has no rows; put zeros where ``keep`` is False, whatever stands there."""
    check_floating("rows", rows, "position", "model")
    if keep is not None:
        shape = tuple(rows.shape[:-1])
        if not isinstance(keep, Tensor) or keep.dtype != torch.bool or keep.ndim < 1 or (
                tuple(keep.shape) != shape[len(shape) - keep.ndim:]):
            given = f"{tuple(keep.shape)} in {keep.dtype}" if isinstance(keep, Tensor) else type(keep).__name__
            raise ValueError(f"keep must be a bool tensor of shape {shape} or its last axes, got {given}")
        if not keep.any(-1).all():
            raise ValueError("keep leaves no position: a cone index of nothing is not defined")
        rows = torch.where(keep[..., None], rows, 0)
    check_real("rows", rows, "position", "model")
    return rows


def _length(rows: Tensor) -> Tensor:
    """Return the length of each row, without overflow or underflow on the way."""
    scale = rows.abs().amax(-1, keepdim=True)
    scale = torch.where(scale > 0, scale, 1)
    return (rows / scale).norm(dim=-1) * scale[..., 0]


def cone_index(rows: Float[Tensor, "*batch position model"],
               keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the length of the sum of the rows, :math:`I_{cone} = \left\lVert \sum_i x_i \right\rVert`.

    Parameters
    ----------
    rows
        A layer's output, one row a position, in any unit: the index carries it.
    keep
        Which positions count (``False`` for padding); all of them by default.

    Returns
    -------
    Float[Tensor, "*batch"]
        Between 0 and the sum of the rows' lengths; grows with the number of rows and with their lengths.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is no finite float32 or float64 tensor, there is no position to sum, ``keep`` is no mask of
        booleans, or the index itself is too large for the dtype. What stands in rows that are not kept does not matter.

    Notes
    -----
    "The geometry of BERT" (5.1); ledger B-79, B-80. Compare layers or texts by `alignment_ratio`, `resultant_length` or
    `mean_pairwise_cosine` instead.

    Examples
    --------
    >>> cone_index(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    index = _length(_checked(rows, keep).sum(-2))
    if not index.isfinite().all():
        raise ValueError(f"rows are too large to be summed in {rows.dtype}: convert or scale them")
    return index


def alignment_ratio(rows: Float[Tensor, "*batch position model"],
                    keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the cone index as a share of its upper bound, :math:`R = \lVert\sum x_i\rVert / \sum\lVert x_i\rVert`.

    1 when all rows point the same way, 0 when they cancel; free of the unit of the rows (ledger B-80).

    Raises
    ------
    TypeError, ValueError
        As `cone_index`, or if all rows are zero.

    Examples
    --------
    >>> alignment_ratio(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).item()  # 5 of 7
    0.714...
    """
    kept = _checked(rows, keep)
    largest = kept.abs().amax((-1, -2), keepdim=True)
    if (largest == 0).any():
        raise ValueError("rows holds nothing but zeros, which have no direction")
    kept = kept / largest
    return _length(kept.sum(-2)) / _length(kept).sum(-1)


def unit(rows: Float[Tensor, "*any model"]) -> Float[Tensor, "*any model"]:
    """Divide each row by its length, however long or short; a row of zeros stays zero.

    >>> unit(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    check_real("rows", rows, "model")
    scale = rows.abs().amax(-1, keepdim=True)
    scaled = rows / torch.where(scale > 0, scale, 1)
    length = scaled.norm(dim=-1, keepdim=True)  # between 1 and sqrt(model), or 0
    return scaled / torch.where(length > 0, length, 1)


def resultant_length(rows: Float[Tensor, "*batch position model"],
                     keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the length of the mean of the unit rows, the resultant length of directional statistics, in [0, 1].

    n independent uniform directions have about :math:`1/\sqrt n`, not 0: compare with equal n, or use
    `mean_pairwise_cosine`, whose expectation is then 0.

    Raises
    ------
    TypeError, ValueError
        As `cone_index`, or if a kept row is zero and has no direction.

    Examples
    --------
    >>> resultant_length(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).item()  # |(1, 1)| / 2
    0.707...
    """
    kept = _checked(rows, keep)
    _directions(rows, kept, keep)
    return alignment_ratio(unit(kept))


def _directions(rows: Tensor, kept: Tensor, keep: Tensor | None) -> Tensor:
    """Count the rows that are kept; refuse one of zeros among them."""
    n = (kept != 0).any(-1).sum(-1)
    due = keep.sum(-1) if keep is not None else rows.shape[-2]
    if (n != due).any():
        raise ValueError("rows holds a row of zeros, which has no direction")
    return n


def mean_pairwise_cosine(rows: Float[Tensor, "*batch position model"],
                         keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the mean cosine over pairs of different rows, :math:`(n^2 \bar R^2 - n) / (n^2 - n)`, in O(n d).

    :math:`\bar R` is the `resultant_length`: the squared length of a sum of unit rows is n plus all products of
    different rows. Between -1/(n-1) and 1; free of n in expectation.

    Raises
    ------
    TypeError, ValueError
        As `cone_index`, or if fewer than two positions are kept, or a kept row is zero and has no direction.

    Examples
    --------
    >>> mean_pairwise_cosine(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(0.)
    """
    kept = _checked(rows, keep)
    n = _directions(rows, kept, keep)
    if (n < 2).any():
        raise ValueError("mean_pairwise_cosine needs at least two rows")
    return (unit(kept).sum(-2).square().sum(-1) - n) / (n * (n - 1)).to(rows.dtype)


@dataclass(frozen=True)
class Spectrum:
    """What the singular values of a head's output say: all, the largest, their squared sum over its square."""

    singular_values: Float[Tensor, "*batch head channel"]
    largest: Float[Tensor, "*batch head"]
    stable_rank: Float[Tensor, "*batch head"]


def head_output_spectrum(attention: Attention, values: Projected) -> Spectrum:
    r"""Return the largest singular value of each head's output ``S V`` and its stable rank.

    Parameters
    ----------
    attention
        S, rows sum to 1.
    values
        V with its bias, ``(head position channel)``, in the unit of the stream.

    Returns
    -------
    Spectrum
        ``singular_values``: one a channel, the largest first, in float64. ``largest``: grows with the number of rows
        and with the size of V. ``stable_rank``:
        :math:`\sum_k \sigma_k^2 / \sigma_1^2`, from 1 (one direction) to the number of channels, free of both; 0 for an
        output of zeros.

    Raises
    ------
    TypeError, ValueError
        If either is no finite float32 or float64 tensor, or they have different heads or positions.

    Notes
    -----
    Figure 11; ledger B-82, B-83. Computed from the Gram matrix of the channels in float64, so values below 1e-8 of the
    largest are rounding.

    Examples
    --------
    Uniform attention leaves every row the same: one direction.

    >>> head_output_spectrum(torch.full((1, 2, 2), 0.5), torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).stable_rank
    tensor([1.], dtype=torch.float64)
    """
    check_real("attention", attention, "head", "query", "key")
    check_real("values", values, "head", "position", "channel")
    if attention.shape[-3] != values.shape[-3] or attention.shape[-1] != values.shape[-2]:
        raise ValueError(f"attention and values must have the same heads and positions, got {tuple(attention.shape)} "
                         f"and {tuple(values.shape)}")
    output = attention.double() @ values.double()
    scale = output.abs().amax((-1, -2), keepdim=True)
    output = output / torch.where(scale > 0, scale, 1)
    squares = torch.linalg.eigvalsh(output.transpose(-1, -2) @ output).clamp(min=0).flip(-1)
    top = torch.where(squares[..., 0] > 0, squares[..., 0], 1)
    found = squares.sqrt() * scale[..., 0]
    return Spectrum(found, found[..., 0], squares.sum(-1) / top)
