r"""Points of the gate reader: cells, one or a few in a row, that even the tail of the map's own noise does not explain.

A point has no shape that shuffled rows would lose, so what can be told from chance is only its size. The null here:
standardised weights of all rows have one distribution, whose upper tail is read off the map itself. If every row has
its spike then spikes are that map's noise, and none of them is a point. A row's level and spread are estimates, and an
error of theirs moves all cells of the row together; :func:`standardise` says how that is kept from looking like points.
"""

import math

import torch
from torch import Tensor

MOST = 12  # points sought in a row
RATES = (8.0, 2.0, 0.5)  # the tail is read off where so many cells per row lie above
UNSURE = 2.0  # standard error of the log of a row's spread, times sqrt(n): 1.75 on lognormal rows, 2.0 on patchy ones
UPPER = 0.674  # normal deviate of the upper quartile


def standardise(maps: Tensor, free: Tensor, spread: Tensor, wide: Tensor, level: float) -> tuple[Tensor, Tensor]:
    r"""Return log weights over their row's level, in units of its spread, and by how much these may be too large.

    The level is the row's own upper quartile. The spread :math:`s_q` is shrunk in its logarithm towards the median
    of the map's (empirical Bayes, Efron and Morris 1973), by as much as its error explains how rows differ:

    .. math::

        \ln \hat s_q = m + w_q(\ln s_q - m), \qquad w_q = \frac{\tau^2}{\tau^2 + e_q^2}, \qquad
        e_q = \frac{\mathtt{UNSURE}}{\sqrt{n_q}}, \qquad
        \tau^2 = \max\Bigl(\overline{(\ln s_q - m)^2} - \bigl(1 + 2\sqrt{2/n}\bigr)\,\overline{e_q^2},\, 0\Bigr)

    so rows count as different only beyond two standard errors. What is left of the error has the deviation
    :math:`\sqrt{w_q}\, e_q`. The doubt is the largest factor that it makes in ``n`` rows at half of ``level``,
    :math:`\delta_q = \exp(\Phi^{-1}(1 - \mathtt{level}/2n) \sqrt{w_q}\, e_q)`.

    Parameters
    ----------
    maps, free
        ``(map, query, key)``: positive weights, and which cells are on no line and no block.
    spread
        ``(map, query, 1)``: of the log weights, by row, positive.
    wide
        ``(query,)``: rows whose spread says something.

    Returns
    -------
    tuple
        Deviates ``(map, query, key)``, ``-inf`` where cells are not free, and doubts ``(map, query, 1)``.

    Examples
    --------
    >>> maps = torch.randn(1, 64, 64, generator=torch.Generator().manual_seed(0)).exp()
    >>> z, doubt = standardise(maps, maps > 0, torch.ones(1, 64, 1),
    ...                        torch.ones(64).bool(), 0.05)
    >>> round(z.std().item(), 1), doubt.unique().tolist()  # equal rows: no doubt
    (1.0, [1.0])
    """
    n, count = maps.shape[-1], free.sum(-1, keepdim=True)
    upper = torch.where(free, maps, 0).topk((n + 2) // 4 + 1, dim=-1).values
    quartile = upper.gather(-1, (count + 2) // 4)
    own, error = spread.log(), UNSURE**2 / count.clamp_min(1).to(spread)
    told = torch.where(wide[:, None], own, math.nan)
    middle = told.nanmedian(-2, keepdim=True).values
    excess = (told - middle).square() - (1 + 2 * (2 / wide.sum()) ** 0.5) * error  # errors alone seldom give as much
    between = excess.nanmean(-2, keepdim=True).clamp_min(0)
    weight = between / (between + error)
    deviates = (maps / quartile).log() / (middle + weight * (own - middle)).exp() + UPPER
    most = torch.special.ndtri(torch.tensor(1 - level / 2 / n, dtype=torch.float64)).item()
    return deviates.masked_fill(~free, -math.inf), (most * (weight * error).sqrt()).exp()


def find_points(deviates: Tensor, eligible: Tensor, level: float, doubt: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
    r"""Find points, alone in their row (instances) or with others (inverse directional rows).

    With :math:`\lambda(z)` the number of cells above :math:`z` that chance puts into a row of :math:`n`
    (:func:`log_rate`) and the row's largest deviates :math:`z_{(1)} \ge z_{(2)} \ge \dots`

    .. math::

        c_k = k \ln\lambda(z_{(k)} / \delta) - \ln k!, \qquad k^* = \operatorname{argmin}_{k \le \mathtt{MOST}} c_k

    over the eligible cells. The :math:`k^*` largest are points if :math:`c_{k^*} < \ln\frac{\mathtt{level}}{2n}` for
    :math:`k^* = 1`, or :math:`c_{k^*} < \ln\frac{\mathtt{level}}{2n\,\mathtt{MOST}}` for more: half of ``level`` is
    shared by the rows, and beyond one point by the ``k`` that are tried. The row's doubt :math:`\delta` is there since
    an error of its spread lifts all of its cells.

    Parameters
    ----------
    deviates
        ``(map, query, key)``: log weights over their row's level, in units of its spread; ``-inf`` on lines and blocks.
    eligible
        Which cells are large enough to be points at all.
    doubt
        ``(map, query, 1)``: by what factor the deviates of a row may be too large.

    Returns
    -------
    tuple
        Cells that are points alone in their row, and cells that are points together.

    Examples
    --------
    >>> z = torch.randn(1, 64, 64, generator=torch.Generator().manual_seed(0))
    >>> z[0, 2, 5] = 50; z[0, 4, [1, 3]] = 50
    >>> alone, together = find_points(z, z > 10, 0.05)
    >>> alone.nonzero().tolist(), together.nonzero().tolist()
    ([[0, 2, 5]], [[0, 4, 1], [0, 4, 3]])
    """
    n = deviates.shape[-1]
    most = min(MOST, n)
    largest, keys = deviates.topk(most, dim=-1)
    k = torch.arange(1, most + 1, device=deviates.device, dtype=largest.dtype)
    chance = k * log_rate(largest, doubt, (deviates > -math.inf).double().mean((1, 2))) - torch.lgamma(k + 1)
    chance = chance.masked_fill(~eligible.gather(-1, keys), math.inf)
    least, count = chance.min(-1)
    unlikely = least < torch.where(count == 0, math.log(level / 2 / n), math.log(level / 2 / n / most))
    alone, together = torch.zeros_like(eligible), torch.zeros_like(eligible)
    alone.scatter_(-1, keys[..., :1], (unlikely & (count == 0))[..., None])
    several = (unlikely & (count > 0))[..., None] & (torch.arange(most, device=keys.device) <= count[..., None])
    return alone, together.scatter_(-1, keys, several)


def log_rate(largest: Tensor, doubt: float | Tensor = 1.0, part: float | Tensor = 1.0) -> Tensor:
    r"""Return :math:`\ln\lambda(z)`, how many cells per row chance puts above each value over its ``doubt``.

    The tail is normal, moved and stretched to go through the levels :math:`t_8, t_2, t_{1/2}` that 8, 2 and 1/2 of
    ``n`` cells exceed, and drawn out the more the last of these lie apart. With :math:`u_r = \Phi^{-1}(1 - r/n)`, and
    never a lighter tail than the normal of spread 1 (:math:`t_r \ge u_r`, :math:`t_2 - t_8 \ge u_2 - u_8`,
    :math:`t_{1/2} - t_2 \ge u_{1/2} - u_2`):

    .. math::

        \lambda(z) = n\,\Phi(-u(z)), \qquad
        x = \frac{z / \mathtt{doubt} - t_2}{t_{1/2} - t_2}, \qquad
        u(z) = u_2 + \begin{cases}
            (u_{1/2} - u_2)\, \ln(1 + bx) / \ln(1 + b) & x > 0 \\
            (u_2 - u_8)\, x / \rho & x \le 0 \end{cases}

    .. math::

        \rho = \frac{t_2 - t_8}{t_{1/2} - t_2}, \qquad \kappa = \frac{u_{1/2} - u_2}{u_2 - u_8}, \qquad
        b = \max\Bigl(\frac{2\,(1 - \rho\kappa)}{1 + \rho^2\kappa},\, 10^{-6}\Bigr)

    so that :math:`u(t_r) = u_r` at all three. Values are ``(map, query, rank)``, the largest of each row.
    ``part`` is the share of the map's cells among which they are the largest: in causal maps one half.
    """
    n = largest.shape[1]
    descending = largest.flatten(1).sort(-1, descending=True).values
    part = torch.as_tensor(part, dtype=torch.float64, device=largest.device).expand(len(largest))
    ranks = ((rate * n * part).round().long().clamp(1, descending.shape[1]) - 1 for rate in RATES)
    levels = (descending.gather(-1, rank[:, None])[:, 0] for rank in ranks)
    share = torch.tensor(RATES, dtype=torch.float64) / n
    u_8, u_2, u_half = (value.item() for value in torch.special.ndtri(1 - share.clamp_max(0.9)))
    t_8, t_2, t_half = (
        t.nan_to_num(0.0, neginf=0.0).clamp_min(u)[:, None, None]
        for t, u in zip(levels, (u_8, u_2, u_half), strict=True)
    )
    lower, upper = (t_2 - t_8).clamp_min(u_2 - u_8), (t_half - t_2).clamp_min(u_half - u_2)
    rho, kappa = lower / upper, (u_half - u_2) / (u_2 - u_8)
    b = (2 * (1 - rho * kappa) / (1 + rho**2 * kappa)).clamp_min(1e-6)
    x = (largest / doubt - t_2) / upper
    beyond = (u_half - u_2) * torch.log1p(b * x.clamp_min(0)) / torch.log1p(b)
    u = u_2 + torch.where(x > 0, beyond, (u_2 - u_8) * x / rho)
    return math.log(n) + torch.special.log_ndtr(-u.double())
