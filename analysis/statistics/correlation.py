"""Rank correlation, with its interval, with a third variable taken out, and with the position in a sequence."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.signatures import checked


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its interval and the number of pairs."""

    value: float
    low: float
    high: float
    n: int


@checked(mixed=True)
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
    >>> correlation = rank_correlation(torch.arange(50.0), torch.arange(50.0) ** 3)
    >>> correlation.value, correlation.n
    (1.0, 50)
    """
    if len(a) < 4:
        raise ValueError(f"a and b must have at least 4 pairs, got {len(a)}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    ranks = [_ranks(sample) for sample in (a, b)]
    rho = float(torch.corrcoef(torch.stack(ranks))[0, 1].clamp(-1, 1))
    if math.isnan(rho):
        raise ValueError("a and b must be finite and not constant: their ranks have no correlation")
    if abs(rho) > 1 - 1e-12:
        one = math.copysign(1.0, rho)
        return Correlation(one, one, one, len(a))
    z, error = math.atanh(rho), math.sqrt((1 + rho**2 / 2) / (len(a) - 3))
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    return Correlation(rho, math.tanh(z - half), math.tanh(z + half), len(a))


@checked(mixed=True)
def partial_rank_correlation(
    a: Float[Tensor, " sample"], b: Float[Tensor, " sample"], control: Float[Tensor, " sample"]
) -> float:
    r"""Return Spearman's correlation of ``a`` and ``b`` once the ranks of ``control`` are taken out of both.

    .. math::  \rho_{ab \cdot c} = \frac{\rho_{ab} - \rho_{ac}\rho_{bc}}{\sqrt{(1 - \rho_{ac}^2)(1 - \rho_{bc}^2)}}

    >>> a, b, control = torch.tensor([[1.0, 2, 3, 4], [1, 2, 4, 3], [2, 1, 4, 3]])
    >>> round(partial_rank_correlation(a, b, control), 3)
    0.667
    """
    if len(a) < 4:
        raise ValueError(f"a, b and control must have at least 4 values each, got {len(a)}")
    ranks = torch.stack([_ranks(sample) for sample in (a, b, control)])
    (_, ab, ac), (_, _, bc), _ = torch.corrcoef(ranks).tolist()
    if math.isnan(ab + ac + bc):
        raise ValueError("a, b and control must be finite and not constant: their ranks have no correlation")
    if max(abs(ac), abs(bc)) > 1 - 1e-12:
        raise ValueError("control orders the pairs exactly as a or b does, or in reverse: nothing is left to correlate")
    return (ab - ac * bc) / math.sqrt((1 - ac**2) * (1 - bc**2))


@checked
def recency(scores: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    """Return Spearman's correlation of each row of scores with the position of the key; nan where a row is constant.

    +1: every later key scores higher. Ties are not averaged, so this is for scores that differ.

    >>> recency(torch.tensor([[1.0, 2.0, 4.0], [3.0, 2.0, 1.0], [0.0, 0.0, 0.0]]))
    tensor([ 1., -1., nan])
    """
    keys = scores.shape[-1]
    if keys < 2 or scores.isnan().any():
        raise ValueError(f"scores must have at least 2 keys and no nan, got shape {tuple(scores.shape)}")
    ranks = scores.argsort(-1).argsort(-1).to(torch.float64)
    place = torch.arange(keys, dtype=torch.float64, device=scores.device)
    apart = (ranks - place).square().sum(-1)
    correlation = (1 - 6 * apart / (keys * (keys**2 - 1))).to(scores.dtype)
    return correlation.masked_fill(scores.amax(-1) == scores.amin(-1), math.nan)


def _ranks(sample: Tensor) -> Float[Tensor, " sample"]:
    """Rank a sample from 0, ties sharing the mean of their ranks; all nan if an entry is not finite."""
    if not torch.isfinite(sample).all():
        return torch.full_like(sample, math.nan, dtype=torch.float64)
    _, inverse, counts = sample.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts + 1) / 2)[inverse]
