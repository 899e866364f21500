r"""How far do the rows of a matrix point the same way? The paper's cone index and forms of it that can be compared."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.axes import Attention
from analysis.core.checks import check_finite
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked
from analysis.matrices.rank import stable_rank

Rows = Float[Tensor, "*batch position model"]
Keep = Bool[Tensor, "*last position"]
"""Which positions count: for each text of a batch, or the same for all of them."""


def _zero_out(rows: Rows, keep: Keep | None) -> Rows:
    """Put zeros where ``keep`` is False, whatever stands there; raise for what is not finite elsewhere."""
    if keep is not None:
        shape = tuple(rows.shape[:-1])
        if tuple(keep.shape) != shape[len(shape) - keep.ndim :]:
            raise ValueError(f"keep must be a bool tensor of shape {shape} or its last axes, got {tuple(keep.shape)}")
        if not keep.any(-1).all():
            raise ValueError("keep leaves no position: a cone index of nothing is not defined")
        rows = torch.where(keep[..., None], rows, 0)
    check_finite("rows", rows)
    return rows


def _length(rows: Float[Tensor, "*any model"]) -> Float[Tensor, "*any"]:
    """Return the length of each row, without overflow or underflow on the way."""
    scaled, size = scale_to_one(rows, -1)
    return scaled.norm(dim=-1) * size[..., 0]


@checked
def cone_index(rows: Rows, keep: Keep | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the length of the sum of the rows, :math:`I_{cone} = \left\lVert \sum_i x_i \right\rVert`.

    Parameters
    ----------
    rows
        A layer's output, one row per position, in any unit: the index carries it.
    keep
        Which positions count (``False`` for padding); all of them by default.

    Returns
    -------
    Float[Tensor, "*batch"]
        Between 0 and the sum of the rows' lengths; grows with the number of rows and with their lengths.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is not a finite float32 or float64 tensor, there is no position to sum, ``keep`` is not a mask of
        booleans, or the index itself is too large for the dtype. Rows that are not kept may hold anything.

    Notes
    -----
    "The geometry of BERT" (5.1). Compare layers or texts by `alignment_ratio`, `resultant_length` or
    `mean_pairwise_cosine` instead.

    Examples
    --------
    >>> cone_index(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    index = _length(_zero_out(rows, keep).sum(-2))
    if not index.isfinite().all():
        raise ValueError(f"rows are too large to be summed in {rows.dtype}: convert or scale them")
    return index


@checked
def alignment_ratio(rows: Rows, keep: Keep | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the cone index as a share of its upper bound, :math:`R = \lVert\sum x_i\rVert / \sum\lVert x_i\rVert`.

    1 when all rows point the same way, 0 when they cancel; free of the unit of the rows.

    Raises
    ------
    TypeError, ValueError
        As `cone_index`, or if all rows are zero.

    Examples
    --------
    >>> alignment_ratio(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).item()  # 5 of 7
    0.714...
    """
    rows = _zero_out(rows, keep)
    if not rows.flatten(-2).any(-1).all():
        raise ValueError("rows holds nothing but zeros, which have no direction")
    return _ratio(scale_to_one(rows, (-1, -2))[0])


def _ratio(rows: Rows) -> Float[Tensor, "*batch"]:
    return _length(rows.sum(-2)) / _length(rows).sum(-1)


@checked(finite=True)
def unit(rows: Float[Tensor, "*any model"]) -> Float[Tensor, "*any model"]:
    """Divide each row by its length, however long or short; a row of zeros stays zero.

    >>> unit(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    scaled, _ = scale_to_one(rows, -1)
    length = scaled.norm(dim=-1, keepdim=True)  # between 1 and sqrt(model), or 0
    return scaled / torch.where(length > 0, length, 1)


@checked
def resultant_length(rows: Rows, keep: Keep | None = None) -> Float[Tensor, "*batch"]:
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
    rows = _zero_out(rows, keep)
    _count_directions(rows, keep)
    return _ratio(unit(rows))


def _count_directions(rows: Rows, keep: Keep | None) -> Int[Tensor, "*batch"]:
    """Count the rows that are left after `_zero_out`; raise for one of zeros among those that count."""
    n = (rows != 0).any(-1).sum(-1)
    positions = keep.sum(-1) if keep is not None else rows.shape[-2]
    if (n != positions).any():
        raise ValueError("rows holds a row of zeros, which has no direction")
    return n


@checked
def mean_pairwise_cosine(rows: Rows, keep: Keep | None = None) -> Float[Tensor, "*batch"]:
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
    rows = _zero_out(rows, keep)
    n = _count_directions(rows, keep)
    if (n < 2).any():
        raise ValueError("mean_pairwise_cosine needs at least two rows")
    return (unit(rows).sum(-2).square().sum(-1) - n) / (n * (n - 1)).to(rows.dtype)


@dataclass(frozen=True)
class Spectrum:
    """What the singular values of a head's output say: all, the largest, their squared sum over its square."""

    singular_values: Float[Tensor, "*batch head channel"]
    largest: Float[Tensor, "*batch head"]
    stable_rank: Float[Tensor, "*batch head"]


@checked(finite=True, mixed=True)
def head_output_spectrum(attention: Attention, values: Float[Tensor, "*batch head key channel"]) -> Spectrum:
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
        ``singular_values``: one per channel, the largest first, in float64. ``largest``: grows with the number of rows
        and with the size of V. ``stable_rank``:
        :math:`\sum_k \sigma_k^2 / \sigma_1^2`, from 1 (one direction) to the number of channels, free of both; 0 for an
        output of zeros.

    Notes
    -----
    "The geometry of BERT", section 5.1 and figure 11. Computed from the Gram matrix of the channels in float64, so
    values below 1e-8 of the largest are rounding.

    Examples
    --------
    Uniform attention leaves every row the same: one direction.

    >>> head_output_spectrum(torch.full((1, 2, 2), 0.5),
    ...                      torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).stable_rank
    tensor([1.], dtype=torch.float64)
    """
    output, size = scale_to_one(attention.double() @ values.double(), (-1, -2))
    squares = torch.linalg.eigvalsh(output.transpose(-1, -2) @ output).clamp(min=0).flip(-1)
    singular_values = squares.sqrt()
    rank = stable_rank(singular_values)
    singular_values = singular_values * size[..., 0]
    return Spectrum(singular_values, singular_values[..., 0], rank)
