"""Attention sinks: the key that gets most of a map's attention, and whether anything flows along it."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.signatures import checked


class Sink(NamedTuple):
    """The key of each map that gets most."""

    key: Int[Tensor, "*any"]
    """Its position."""
    weight: Float[Tensor, "*any"]
    """The mean weight that queries give it, from 1/keys to 1."""


@checked
def find_sink(attention: Float[Tensor, "*any query key"]) -> Sink:
    """Return the sink of each map: the key with the largest mean weight over queries, the first where two have it.

    Under a causal mask the first key is seen by most queries, so it leads in a map of equal weights as well.

    References
    ----------
    Xiao et al. 2024, "Efficient streaming language models with attention sinks".

    Examples
    --------
    >>> import torch
    >>> find_sink(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))
    Sink(key=tensor(0), weight=tensor(0.6250))
    """
    received = attention.mean(-2)
    weight, key = received.max(-1)
    return Sink(key, weight)
