"""Scaling that keeps squares in range: norms and sums of squares that neither overflow nor vanish on the way."""

import torch
from torch import Tensor


def scale_to_one(tensor: Tensor, axes: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Divide by the largest size along the axes; return it too, the axes kept with length 1. Zeros stay, with size 1.

    >>> scaled, size = scale_to_one(torch.tensor([[3e30, -4e30], [0.0, 0.0]]), -1)
    >>> scaled.norm(dim=-1) * size[:, 0]
    tensor([5.0000e+30, 0.0000e+00])
    """
    size = tensor.abs().amax(axes, keepdim=True)
    size = torch.where(size > 0, size, 1)
    return tensor / size, size
