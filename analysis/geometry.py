r"""How far do the rows of a matrix point the same way? The paper's cone index and forms of it that can be compared.

What belongs here: lengths of sums, mean cosines, singular values of a head's output. What does not: whose rows they
are, and distributions of coordinates (``normality``).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.axes import Attention, Projected


def _checked(rows: Tensor, keep: Tensor | None) -> Tensor:
    """Refuse what has no rows; put zeros where ``keep`` is False."""
    if rows.ndim < 2 or rows.shape[-2] == 0:
        raise ValueError(f"rows must be (..., position, model) with at least one position, got {tuple(rows.shape)}")
    if keep is None:
        return rows
    if not keep.any(-1).all():
        raise ValueError("keep leaves no position: a cone index of nothing is not defined")
    return rows * keep[..., None]


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
    ValueError
        If there is no position to sum.

    Notes
    -----
    "The geometry of BERT" (5.1); ledger B-79, B-80. Compare layers or texts by `alignment_ratio`, `resultant_length` or
    `mean_pairwise_cosine` instead.

    Examples
    --------
    >>> cone_index(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    return _checked(rows, keep).sum(-2).norm(dim=-1)


def alignment_ratio(rows: Float[Tensor, "*batch position model"],
                    keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the cone index as a share of its upper bound, :math:`R = \lVert\sum x_i\rVert / \sum\lVert x_i\rVert`.

    1 when all rows point the same way, 0 when they cancel; free of the unit of the rows (ledger B-80).

    >>> alignment_ratio(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).item()  # 5 of 7
    0.714...
    """
    kept = _checked(rows, keep)
    return kept.sum(-2).norm(dim=-1) / kept.norm(dim=-1).sum(-1)


def unit(rows: Float[Tensor, "*any model"]) -> Float[Tensor, "*any model"]:
    """Divide each row by its length; a row of zeros stays zero.

    >>> unit(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return torch.nn.functional.normalize(rows, dim=-1, eps=torch.finfo(rows.dtype).tiny)


def resultant_length(rows: Float[Tensor, "*batch position model"],
                     keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the length of the mean of the unit rows, the resultant length of directional statistics, in [0, 1].

    n independent uniform directions have about :math:`1/\sqrt n`, not 0: compare with equal n, or use
    `mean_pairwise_cosine`, whose expectation is then 0.

    >>> resultant_length(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).item()  # |(1, 1)| / 2
    0.707...
    """
    return alignment_ratio(unit(rows), keep)


def mean_pairwise_cosine(rows: Float[Tensor, "*batch position model"],
                         keep: Bool[Tensor, "*batch position"] | None = None) -> Float[Tensor, "*batch"]:
    r"""Return the mean cosine over pairs of different rows, :math:`(n^2 \bar R^2 - n) / (n^2 - n)`, in O(n d).

    :math:`\bar R` is the `resultant_length`: the squared length of a sum of unit rows is n plus all products of
    different rows. Between -1/(n-1) and 1; free of n in expectation.

    Raises
    ------
    ValueError
        If fewer than two positions are kept, or a kept row is zero and has no direction.

    Examples
    --------
    >>> mean_pairwise_cosine(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(0.)
    """
    kept = _checked(rows, keep)
    lengths = kept.norm(dim=-1)
    n = (lengths > 0).sum(-1)
    due = keep.sum(-1) if keep is not None else torch.tensor(rows.shape[-2])
    if (n != due).any():
        raise ValueError("rows holds a row of zeros, which has no direction")
    if (n < 2).any():
        raise ValueError("mean_pairwise_cosine needs at least two rows")
    return (unit(kept).sum(-2).square().sum(-1) - n) / (n * (n - 1)).to(rows.dtype)


@dataclass(frozen=True)
class Spectrum:
    """What the singular values of a head's output say: the largest, and the squared sum over its square."""

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
        ``largest``: grows with the number of rows and with the size of V. ``stable_rank``:
        :math:`\sum_k \sigma_k^2 / \sigma_1^2`, from 1 (one direction) to the number of channels, free of both.

    Notes
    -----
    Figure 11; ledger B-82, B-83. Computed from the Gram matrix of the channels.

    Examples
    --------
    Uniform attention leaves every row the same: one direction.

    >>> head_output_spectrum(torch.full((1, 2, 2), 0.5), torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).stable_rank
    tensor([1.])
    """
    output = attention @ values
    squares = torch.linalg.eigvalsh(output.transpose(-1, -2) @ output).clamp(min=0)
    return Spectrum(squares[..., -1].sqrt(), squares.sum(-1) / squares[..., -1])
