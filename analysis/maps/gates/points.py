r"""Points of the gate reader: cells, one or a few in a row, that even the tail of the map's own noise does not explain.

A point has no shape that shuffled rows would lose, so what can be told from chance is only its size. The null here:
standardised weights of all rows have one distribution, whose upper tail is read off the map itself. If every row has
its spike then spikes are that map's noise, and none of them is a point.
"""

import math

import torch
from torch import Tensor

MOST = 12  # points sought in a row
RATES = (8.0, 2.0, 0.5)  # the tail is read off where so many cells a row lie above
UNSURE = 3.0  # error of a row's spread, times sqrt(n)


def find_points(deviates: Tensor, eligible: Tensor, level: float) -> tuple[Tensor, Tensor]:
    r"""Find points, alone in their row (instances) or with others (inverse directional rows).

    With :math:`\lambda(z)` the number of cells above :math:`z` that chance puts into a row, the ``k`` largest of a row
    are points if :math:`\lambda(z_{(k)})^k / k!` is below half of ``level`` divided by the rows (and, beyond one point,
    by the ``k`` tried); the least decides.

    Parameters
    ----------
    deviates
        ``(map, query, key)``: log weights over their row's level, in units of its spread; ``-inf`` where taken.
    eligible
        Which cells are large enough to be points at all.

    Returns
    -------
    tuple
        Cells that are points alone in their row, and cells that are points together.

    >>> z = torch.randn(1, 64, 64, generator=torch.Generator().manual_seed(0)); z[0, 2, 5] = 50; z[0, 4, [1, 3]] = 50
    >>> alone, together = find_points(z, z > 10, 0.05)
    >>> alone.nonzero().tolist(), together.nonzero().tolist()
    ([[0, 2, 5]], [[0, 4, 1], [0, 4, 3]])
    """
    n = deviates.shape[-1]
    most = min(MOST, n)
    largest, keys = deviates.topk(most, dim=-1)
    k = torch.arange(1, most + 1, device=deviates.device, dtype=largest.dtype)
    doubt = torch.where(k > 1, 1 + UNSURE / n**0.5, 1.0)  # an error of the row's spread lifts all of its cells
    chance = k * log_rate(largest, doubt) - torch.lgamma(k + 1)
    chance = chance.masked_fill(~eligible.gather(-1, keys), math.inf)
    least, count = chance.min(-1)
    found = least < torch.where(count == 0, math.log(level / 2 / n), math.log(level / 2 / n / most))
    alone, together = torch.zeros_like(eligible), torch.zeros_like(eligible)
    alone.scatter_(-1, keys[..., :1], (found & (count == 0))[..., None])
    some = (found & (count > 0))[..., None] & (torch.arange(most, device=keys.device) <= count[..., None])
    return alone, together.scatter_(-1, keys, some)


def log_rate(largest: Tensor, doubt: float | Tensor = 1.0) -> Tensor:
    r"""Return :math:`\ln\lambda(z)`, how many cells a row chance puts above each value over its ``doubt``.

    The tail is normal, moved and stretched to go through the levels that 8, 2 and 1/2 cells a row exceed, and the more
    drawn out the more the last of these lie apart. Never lighter than a normal tail of spread 1. Values are
    ``(map, query, rank)``, the largest of each row.
    """
    n = largest.shape[1]
    ranked = largest.flatten(1).sort(-1, descending=True).values
    levels = (ranked[:, min(max(round(rate * n), 1), ranked.shape[1]) - 1] for rate in RATES)
    share = torch.tensor(RATES, dtype=torch.float64) / n
    normal = [value.item() for value in torch.special.ndtri(1 - share.clamp_max(0.9))]
    far, near, last = (value.nan_to_num(0.0, neginf=0.0).clamp_min(least)[:, None, None]
                       for value, least in zip(levels, normal, strict=True))
    d_far, d_last = normal[1] - normal[0], normal[2] - normal[1]
    first, second = (near - far).clamp_min(d_far), (last - near).clamp_min(d_last)
    ratio = first / second
    bend = (2 * (1 - ratio * d_last / d_far) / (1 + ratio**2 * d_last / d_far)).clamp_min(1e-6)
    over = (largest / doubt - near) / second
    out = d_last * torch.log1p(bend * over.clamp_min(0)) / torch.log1p(bend)
    deviate = normal[1] + torch.where(over > 0, out, d_far * over / ratio)
    return math.log(n) + torch.special.log_ndtr(-deviate.double())
