"""Rank correlation, with its interval, given a third variable, and with the position in a sequence.

What belongs here: how two samples go together. What does not: intervals of means and shares
(:mod:`analysis.statistics.intervals`).
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.checks import check_floating, check_tensor


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its interval and the number of pairs."""

    value: float
    low: float
    high: float
    n: int


def rank_correlation(a: Float[Tensor, " sample"], b: Float[Tensor, " sample"], level: float = 0.95) -> Correlation:
    r"""Return Spearman's correlation with an interval for independent pairs.

    Fisher's ``z = artanh(rho)`` with the standard error of Bonett and Wright,
    ``sqrt((1 + rho^2 / 2) / (n - 3))``. Neighbouring positions are not independent: there the interval is too narrow
    and the null of random directions is what to compare with.

    Raises
    ------
    ValueError
        If the samples differ in length, have fewer than 4 pairs, are constant or hold entries that are not finite.

    Examples
    --------
    >>> found = rank_correlation(torch.arange(50.0), torch.arange(50.0) ** 3)
    >>> found.value, found.n
    (1.0, 50)
    """
    check_tensor("a", a)
    check_tensor("b", b)
    if a.ndim != 1 or a.shape != b.shape or len(a) < 4:
        raise ValueError(f"a and b must have one axis and the same length, at least 4, got {tuple(a.shape)} and "
                         f"{tuple(b.shape)}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    ranks = [_ranks(sample) for sample in (a, b)]
    rho = float(torch.corrcoef(torch.stack(ranks))[0, 1].clamp(-1, 1))
    if math.isnan(rho):
        raise ValueError("a and b must be finite and not constant: their ranks have no correlation")
    if abs(rho) > 1 - 1e-12:
        return Correlation(*[math.copysign(1.0, rho)] * 3, len(a))
    z, error = math.atanh(rho), math.sqrt((1 + rho**2 / 2) / (len(a) - 3))
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    return Correlation(rho, math.tanh(z - half), math.tanh(z + half), len(a))


def partial_rank_correlation(a: Float[Tensor, " sample"], b: Float[Tensor, " sample"],
                             given: Float[Tensor, " sample"]) -> float:
    """Return Spearman's correlation of ``a`` and ``b`` once the ranks of ``given`` are taken out of both.

    >>> a, b, given = torch.tensor([[1.0, 2, 3, 4], [1, 2, 4, 3], [2, 1, 4, 3]])
    >>> round(partial_rank_correlation(a, b, given), 3)
    0.667
    """
    for name, sample in (("a", a), ("b", b), ("given", given)):
        check_tensor(name, sample)
    if a.ndim != 1 or not a.shape == b.shape == given.shape or len(a) < 4:
        raise ValueError(f"a, b and given must have one axis and the same length, at least 4, got {tuple(a.shape)}, "
                         f"{tuple(b.shape)} and {tuple(given.shape)}")
    ranks = torch.stack([_ranks(sample) for sample in (a, b, given)])
    (_, ab, ag), (_, _, bg), _ = torch.corrcoef(ranks).tolist()
    if math.isnan(ab + ag + bg):
        raise ValueError("a, b and given must be finite and not constant: their ranks have no correlation")
    if max(abs(ag), abs(bg)) > 1 - 1e-12:
        raise ValueError("given orders the pairs exactly as a or b does (or in reverse): nothing is left to correlate")
    return (ab - ag * bg) / math.sqrt((1 - ag**2) * (1 - bg**2))


def recency(scores: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    """Return Spearman's correlation of each row of scores with the position of the key; nan where a row is constant.

    +1: every later key scores higher. Ties are not averaged, so this is for scores that differ.

    >>> recency(torch.tensor([[1.0, 2.0, 4.0], [3.0, 2.0, 1.0], [0.0, 0.0, 0.0]]))
    tensor([ 1., -1., nan])
    """
    check_floating("scores", scores, "key")
    keys = scores.shape[-1]
    if keys < 2 or scores.isnan().any():
        raise ValueError(f"scores must have at least 2 keys and no nan, got shape {tuple(scores.shape)}")
    ranks = scores.argsort(-1).argsort(-1).to(torch.float64)
    place = torch.arange(keys, dtype=torch.float64, device=scores.device)
    apart = (ranks - place).square().sum(-1)
    found = (1 - 6 * apart / (keys * (keys**2 - 1))).to(scores.dtype)
    return found.masked_fill(scores.amax(-1) == scores.amin(-1), math.nan)


def _ranks(sample: Tensor) -> Float[Tensor, " sample"]:
    """Rank a sample from 0, ties sharing the mean of their ranks; all nan if an entry is not finite."""
    if not torch.isfinite(sample).all():
        return torch.full_like(sample, math.nan, dtype=torch.float64)
    _, inverse, counts = sample.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts + 1) / 2)[inverse]
