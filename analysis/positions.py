r"""Positions: the fixed sines of the original Transformer, and how to see whether a table knows distance only.

BERT and GPT-2 learn their tables instead (``weights.positions``); this module computes, it reads nothing.
"""

import torch
from jaxtyping import Float
from torch import Tensor


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
    """Return the largest deviation from a constant along any diagonal, relative to the largest entry.

    >>> toeplitz_defect(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    0.0
    """
    spread = max((gram.diagonal(k) - gram.diagonal(k).mean()).abs().max().item() for k in range(gram.shape[0]))
    return spread / gram.abs().max().item()
