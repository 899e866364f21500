"""Moves on maps of cells that the gate reader is made of: medians, shears and runs. ``n^2`` each, on any device."""

import numpy as np
import torch
from torch import Tensor


def median_of_3(maps: Tensor, step: int = 1, axes: tuple[int, ...] = (-1, -2)) -> Tensor:
    """Replace each cell by the median of itself and the two cells ``step`` away: along keys, then along queries.

    Cells nearer than ``step`` to an end are kept along that axis. Rectangles pass unchanged; thin lines vanish.

    >>> median_of_3(torch.tensor([[0.0, 9.0, 0.0, 1.0, 1.0, 0.0]]).expand(3, 6))[1]
    tensor([0., 0., 1., 1., 1., 0.])
    """
    for axis in axes:
        inner = maps.shape[axis] - 2 * step
        before, middle, after = (maps.narrow(axis, i * step, inner) for i in range(3))
        median = torch.maximum(torch.minimum(before, after), torch.minimum(torch.maximum(before, after), middle))
        maps = torch.cat([maps.narrow(axis, 0, step), median, maps.narrow(axis, inner + step, step)], axis)
    return maps


def skew(cells: Tensor) -> Tensor:
    """Shear ``(..., query, key)`` to ``(..., query, offset)``, offset ``n + key - query`` of ``2 n + 1``.

    >>> skew(torch.tensor([[1, 2], [3, 4]]))
    tensor([[0, 0, 1, 2, 0],
            [0, 3, 4, 0, 0]])
    """
    *batch, n, _ = cells.shape
    sheared = cells.new_zeros(*batch, n * (2 * n + 1))
    sheared[..., : 2 * n * n].unflatten(-1, (n, 2 * n))[..., n:] = cells
    return sheared.unflatten(-1, (n, 2 * n + 1))


def unskew(sheared: Tensor) -> Tensor:
    """Undo ``skew``."""
    n = sheared.shape[-2]
    return sheared.flatten(-2)[..., : 2 * n * n].unflatten(-1, (n, 2 * n))[..., n:]


def run_ends(hits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """For each cell the last miss before and the first miss after it along an axis (itself, if it is a miss).

    >>> run_ends(torch.tensor([True, True, False]), -1)
    (tensor([-1, -1,  2], dtype=torch.int16), tensor([2, 2, 2], dtype=torch.int16))
    """
    n = hits.shape[axis]
    shape = [1] * hits.ndim
    shape[axis] = n
    small = torch.int16 if n < 2**15 else torch.int32
    place = torch.arange(n, dtype=small, device=hits.device).view(shape)
    before = running_max(place.masked_fill(hits, -1), axis)
    after = n - 1 - running_max((n - 1 - place).masked_fill(hits, -1).flip(axis), axis).flip(axis)
    return before, after


def running_max(values: Tensor, axis: int) -> Tensor:
    """Return the largest value so far along an axis; through numpy on the CPU, where it is ten times faster."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.maximum.accumulate(values.numpy(), axis))
    return values.cummax(axis).values
