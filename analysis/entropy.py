r"""Entropies of attention maps: of each row, comparable across lengths, and of the picture's grey levels.

What belongs here: how spread out a map is, as one number. What does not: what a map looks like (``gates``).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.axes import Attention, check_real
from analysis.gates import row_entropy


def _check(attention: Attention) -> None:
    check_real("attention", attention, "head", "query", "key")
    if (attention < 0).any() or not attention.flatten(-2).any(-1).all():
        raise ValueError("attention must have no negative entry and no map of zeros alone")


def relative_entropy(attention: Attention, keys: int | None = None) -> Float[Tensor, "*batch head query"]:
    """Return each row's entropy as a share of ln n, its value for uniform attention: comparable across lengths.

    Parameters
    ----------
    attention
        Maps whose rows sum to 1.
    keys
        How many keys there are to listen to, where others are masked (padding); all by default.

    Raises
    ------
    TypeError, ValueError
        If ``attention`` is no finite float32 or float64 tensor, has a negative entry or a row that does not sum to 1
        or listens to more than ``keys``, or there are fewer than two keys.

    Examples
    --------
    >>> relative_entropy(torch.tensor([[[0.5, 0.5]]]))
    tensor([[1.]])
    >>> relative_entropy(torch.tensor([[[0.5, 0.5, 0.0]]]), keys=2)
    tensor([[1.]])
    """
    _check(attention)
    keys = attention.shape[-1] if keys is None else keys
    if not 2 <= keys <= attention.shape[-1]:
        raise ValueError(f"relative_entropy needs two keys (ln 1 is 0) and at most {attention.shape[-1]}, got {keys}")
    if (attention.sum(-1) - 1).abs().max() > 1e-3:
        raise ValueError("attention must have rows that sum to 1")
    if (heard := int((attention > 0).sum(-1).max())) > keys:
        raise ValueError(f"keys must be at least {heard}, to as many a row of attention listens, got {keys}")
    return row_entropy(attention) / math.log(keys)


def histogram_entropy(attention: Attention, bins: int = 256) -> Float[Tensor, "*batch head"]:
    r"""Return the entropy of the histogram of a map's values, in nats: how many different grey levels the picture has.

    The entries of each map are sorted into equal bins between 0 and its largest value; where a value stands does not
    matter. It is 0 for uniform attention, where `row_entropy` is largest (ledger B-84, B-85).

    Raises
    ------
    TypeError, ValueError
        If ``attention`` is no finite float32 or float64 tensor, has a negative entry or a map of zeros alone, or
        ``bins`` is below 2.

    Examples
    --------
    >>> histogram_entropy(torch.full((1, 4, 4), 0.25))
    tensor([0.])
    >>> histogram_entropy(torch.eye(2)[None])  # half zeros, half ones
    tensor([0.6931])
    """
    if bins < 2:
        raise ValueError(f"bins must be at least 2, got {bins}")
    _check(attention)
    values = attention.flatten(-2)
    level = (values / values.amax(-1, keepdim=True) * bins).long().clamp(max=bins - 1)
    counts = torch.zeros(*values.shape[:-1], bins, dtype=attention.dtype, device=attention.device)
    counts.scatter_add_(-1, level, torch.ones_like(values))
    return torch.special.entr(counts / values.shape[-1]).sum(-1)
