"""Intervals for what was measured: a mean over independent units (texts, seeds), a share of a count.

Rows of one text are not independent of each other: average over a text first, then ask here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """An estimate and the interval around it."""

    value: float
    low: float
    high: float


def mean_interval(values: np.ndarray | Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of independent values with Student's interval.

    Raises
    ------
    ValueError
        If there are fewer than two values.

    Examples
    --------
    >>> [round(float(v), 3) for v in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    values = np.asarray(values, dtype=float).ravel()
    if values.size < 2:
        raise ValueError(f"values must hold at least two numbers for an interval, got {values.size}")
    half = stats.t.ppf((1 + level) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return Interval(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def share_interval(hits: int, trials: int, level: float = 0.95) -> Interval:
    """Return a share with the exact (Clopper-Pearson) interval; sound for 0 hits too.

    >>> [round(v, 3) for v in share_interval(0, 100)]
    [0.0, 0.0, 0.036]
    """
    ci = stats.binomtest(int(hits), int(trials)).proportion_ci(level, method="exact")
    return Interval(hits / trials, float(ci.low), float(ci.high))
