r"""Entropies of attention maps: of each row, comparable across lengths, and of the picture's grey levels.

What belongs here: how spread out a map is, as one number. What does not: what a map looks like (``gates``).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.axes import Attention
from analysis.gates import row_entropy


def relative_entropy(attention: Attention) -> Float[Tensor, "*batch head query"]:
    """Return each row's entropy as a share of ln n, its value for uniform attention: comparable across lengths.

    >>> relative_entropy(torch.tensor([[[0.5, 0.5]]]))
    tensor([[1.]])
    """
    if attention.shape[-1] < 2:
        raise ValueError("relative_entropy needs at least two keys: ln 1 is 0")
    return row_entropy(attention) / math.log(attention.shape[-1])


def histogram_entropy(attention: Attention, bins: int = 256) -> Float[Tensor, "*batch head"]:
    r"""Return the entropy of the histogram of a map's values, in nats: how many different grey levels the picture has.

    The entries of each map are sorted into equal bins between 0 and its largest value; where a value stands does not
    matter. It is 0 for uniform attention, where `row_entropy` is largest (ledger B-84, B-85).

    Examples
    --------
    >>> histogram_entropy(torch.full((1, 4, 4), 0.25))
    tensor([0.])
    >>> histogram_entropy(torch.eye(2)[None])  # half zeros, half ones
    tensor([0.6931])
    """
    if bins < 2:
        raise ValueError(f"bins must be at least 2, got {bins}")
    values = attention.flatten(-2)
    level = (values / values.amax(-1, keepdim=True) * bins).long().clamp(max=bins - 1)
    counts = torch.zeros(*values.shape[:-1], bins, dtype=attention.dtype)
    counts.scatter_add_(-1, level, torch.ones_like(values))
    return torch.special.entr(counts / values.shape[-1]).sum(-1)
