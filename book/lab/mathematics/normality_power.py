r"""What a departure from the Gaussian that shows in samples of one size would show in samples of another.

The Lilliefors statistic of n coordinates mixes their shape with the noise of n draws, and its critical value falls
with n. So one width says little about another: the same shape may fail at width 768 and pass at 192. Here the shape is
that of Student's t, whose tails grow heavier as its degrees of freedom fall.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator

from analysis.statistics import normality

FREEDOMS = (np.inf, 30.0, 15.0, 10.0, 8.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5)
"""Degrees of freedom of the shapes, Gaussian first; the mean statistic rises along them."""


class ExpectedAtSize(NamedTuple):
    """For each statistic: the mean to be expected in samples of the other size, and the share that would fail there."""

    mean: np.ndarray
    failing: np.ndarray


def at_other_size(
    statistics: np.ndarray | Sequence[float], size: int, other: int, rng: Generator, draws: int = 1000
) -> ExpectedAtSize:
    """Say what coordinates of the same shape would give in samples of another size.

    Parameters
    ----------
    statistics
        Lilliefors statistics of samples of ``size`` coordinates, each taken for the mean of its shape. Below the
        Gaussian's mean they are taken for Gaussian.
    other
        The size that is wanted; ``failing`` is at the level of 5 %.

    For table 1 of "The geometry of BERT".

    >>> narrow = at_other_size([0.02, 0.06], 768, 192, np.random.default_rng(0),
    ...                        draws=200)
    >>> [bool(m < 0.055)
    ...  for m in narrow.mean], bool(narrow.failing[0] < 0.2 < narrow.failing[1] < 0.9)
    ([True, False], True)
    """
    statistics = np.asarray(statistics, dtype=float)
    if statistics.ndim != 1 or statistics.size == 0 or not np.isfinite(statistics).all():
        raise ValueError(f"statistics must be finite, one axis of at least one, got shape {statistics.shape}")
    at, there = [], []
    for freedom in FREEDOMS:
        at.append(_statistics(freedom, size, draws, rng).mean())
        there.append(_statistics(freedom, other, draws, rng))
    means = np.maximum.accumulate(at)
    if statistics.max() > means[-1]:
        raise ValueError(
            f"statistics must be at most {means[-1]:.3f}, the mean for the heaviest tails, got {statistics.max():.3f}"
        )
    critical = normality.critical_value(other)
    return ExpectedAtSize(
        np.interp(statistics, means, [d.mean() for d in there]),
        np.interp(statistics, means, [(d > critical).mean() for d in there]),
    )


def _statistics(freedom: float, size: int, draws: int, rng: Generator) -> np.ndarray:
    shape = (draws, size)
    sample = rng.standard_normal(shape) if np.isinf(freedom) else rng.standard_t(freedom, shape)
    return normality.lilliefors(torch.from_numpy(sample)).numpy()
