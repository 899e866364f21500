"""Other splits of a row's divergence from uniform, to compare with the one on the path: by taking parts out or in."""

from collections.abc import Sequence
from itertools import permutations

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps.attribution import Visible, divergence, total_score


def drop_one(parts: Float[Tensor, "part *batch key"], visible: Visible | None = None) -> Float[Tensor, "part ..."]:
    """Return by how much the divergence falls when one part is taken out of the score. Need not sum to the whole.

    >>> s = torch.tensor([[0.0, 3.0]])
    >>> bool((drop_one(torch.stack([s, s])).sum(0) < divergence(2 * s)).all())
    True
    """
    total, mask = total_score(parts, visible)
    whole = divergence(total, mask)
    falls = [whole - divergence((total - part).masked_fill(~mask, 0), mask) for part in parts]
    return torch.stack(falls).to(parts.dtype)


def in_order(
    parts: Float[Tensor, "part *batch key"], order: Sequence[int], visible: Visible | None = None
) -> Float[Tensor, "part ..."]:
    """Return by how much the divergence grows when the parts come in one after another. Sums; depends on the order.

    >>> s = torch.tensor([[0.0, 3.0]])
    >>> [round(x, 2) for x in in_order(torch.stack([s, s]), (1, 0)).flatten().tolist()]
    [0.17, 0.5]
    """
    _, mask = total_score(parts, visible)
    if sorted(order) != list(range(len(parts))):
        raise ValueError(f"order must name each of the {len(parts)} parts once, got {list(order)}")
    gains, before, so_far = [torch.empty(0)] * len(parts), 0.0, torch.zeros_like(parts[0], dtype=torch.float64)
    for k in order:
        so_far = (so_far + parts[k]).masked_fill(~mask, 0)
        now = divergence(so_far, mask)
        gains[k], before = now - before, now
    return torch.stack(gains).to(parts.dtype)


def shapley(parts: Float[Tensor, "part *batch key"], visible: Visible | None = None) -> Float[Tensor, "part ..."]:
    """Return the mean of :func:`in_order` over all orders: sums, treats parts alike, depends on how others are cut.

    Raises for more than six parts, which have too many orders.

    >>> s = torch.tensor([[0.0, 3.0]])
    >>> bool((shapley(torch.stack([s, s])).diff(dim=0).abs() < 1e-6).all())
    True
    """
    total_score(parts, visible)
    if len(parts) > 6:
        raise ValueError(f"parts must be at most 6 (720 orders), got {len(parts)}")
    orders, wide = list(permutations(range(len(parts)))), parts.double()
    return torch.stack([in_order(wide, order, visible) for order in orders]).mean(0).to(parts.dtype)
