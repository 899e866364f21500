r"""Positions: the fixed sines of the original Transformer, and how to see whether a table knows distance only.

BERT and GPT-2 learn their tables instead (``weights.positions``); this module computes, it reads nothing.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.axes import check_real


def sinusoidal_positions(length: int, model: int,
                         dtype: torch.dtype = torch.float64) -> Float[Tensor, "position model"]:
    r"""Return the fixed positions of the original Transformer, sines in even and cosines in odd channels.

    .. math::  p_{t,2i} = \sin(t\,\omega_i), \quad p_{t,2i+1} = \cos(t\,\omega_i), \quad \omega_i = 10000^{-2i/d}

    Every row has norm ``sqrt(model / 2)`` and the product of two rows depends on their distance alone.

    Raises
    ------
    ValueError
        If ``model`` is odd.

    Notes
    -----
    Ledger B-03; (2.1) and (2.2) of the paper. BERT does not use them.
    """
    if model % 2:
        raise ValueError(f"model must be even, got {model}")
    angle = torch.outer(torch.arange(length, dtype=dtype),
                        10000.0 ** (-torch.arange(0, model, 2, dtype=dtype) / model))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def toeplitz_defect(gram: Float[Tensor, "position position"]) -> float:
    r"""Return how far a square matrix is from knowing distance only: :math:`\|G - T\|_F / \|G\|_F`.

    ``T`` has the mean of each diagonal of ``G`` along that diagonal, so 0 means that an entry depends on
    ``row - column`` alone.

    Raises
    ------
    TypeError, ValueError
        If ``gram`` is no finite square matrix, or is zero.

    Examples
    --------
    >>> toeplitz_defect(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    0.0
    >>> toeplitz_defect(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    1.0
    """
    check_real("gram", gram, "position", "position")
    size = gram.shape[0]
    if tuple(gram.shape) != (size, size) or not gram.any():
        raise ValueError(f"gram must be one square matrix that is not zero, got shape {tuple(gram.shape)}")
    place = torch.arange(size, device=gram.device)
    offset = place[:, None] - place + size - 1
    sums = gram.new_zeros(2 * size - 1).scatter_add_(0, offset.flatten(), gram.flatten())
    means = sums / torch.bincount(offset.flatten(), minlength=2 * size - 1)
    return ((gram - means[offset]).norm() / gram.norm()).item()
