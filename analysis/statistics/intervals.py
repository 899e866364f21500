"""Intervals for what was measured: a mean over independent units (texts, seeds), a share of a count.

Rows of one text are not independent of each other: average over a text first.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """An estimate and the interval around it."""

    value: float
    low: float
    high: float

    def format(self, form: str = ".2f", before: str = "") -> str:
        """Return the bounds in words, in a number format, behind ``before``; or that too few texts have been measured.

        >>> Interval(0.5, 0.4, 0.6).format(".0%"), Interval(0.5, float("nan"),
        ...                                                 float("nan")).format()
        ('40% to 60%', 'too few texts to tell')
        """
        if np.isnan(self.low) or np.isnan(self.high):
            return "too few texts to tell"
        return f"{before}{self.low:{form}} to {self.high:{form}}"


FEWEST = 3
"""Of fewer texts, seeds or groups than this no interval is shown: Student's of two is 13 times their standard error."""

ROUNDING = 1e-6
"""How far a share in float32 may lie beyond 0 or 1."""


def mean_interval(values: np.ndarray | Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of independent values with Student's interval.

    Raises
    ------
    ValueError
        If there are fewer than two values, one is not finite, or the level is not between 0 and 1.

    Examples
    --------
    >>> [round(float(v), 3) for v in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    values = np.asarray(values, dtype=float).ravel()
    if values.size < 2:
        raise ValueError(f"values must hold at least two numbers for an interval, got {values.size}")
    if not np.isfinite(values).all():
        raise ValueError(f"values must be finite, got {values[~np.isfinite(values)][0]}")
    _check_level(level)
    half = stats.t.ppf((1 + level) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return Interval(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def grouped_share_interval(
    hits: np.ndarray | Sequence[bool], groups: Sequence[Hashable], level: float = 0.95
) -> Interval:
    r"""Return the share of hits with an interval that counts groups, not their members, as independent.

    Korn and Graubard's form of the exact interval with :math:`(\sum n)^2 / \sum n^2` trials for groups of sizes
    :math:`n`: as many as there are groups if all are of one size, fewer if a large group decides. It is right if the
    members of a group are hit or missed together, and wider than needed otherwise. For groups of one it is
    :func:`share_interval`.

    Raises
    ------
    ValueError
        If there is no hit or miss to count, a hit is neither 0 nor 1, there is not one group a hit, or the level is not
        between 0 and 1.

    References
    ----------
    Korn and Graubard, *Confidence intervals for proportions with small expected number of positive counts estimated
    from survey data* (1998); Kish, *Survey Sampling* (1965), for the effective number of trials.

    Examples
    --------
    >>> [round(v, 3) for v in grouped_share_interval([True] * 4, ["a", "a", "b", "b"])]
    [1.0, 0.158, 1.0]
    """
    hits = np.asarray(hits, dtype=float).ravel()
    if hits.size == 0 or hits.size != len(groups):
        raise ValueError(f"hits must be one or more, with a group each; got {hits.size} and {len(groups)} groups")
    if not np.isin(hits, (0, 1)).all():
        raise ValueError("hits must be 0 or 1, or true or false")
    _check_level(level)
    sizes = np.array([*Counter(groups).values()])
    return _cautious(float(hits.mean()), float(sizes.sum() ** 2 / (sizes**2).sum()), level)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def bounded(interval: Interval, trials: int, *, share: bool = True, level: float = 0.95) -> Interval:
    """Return an interval that lies where its value can: a share's between 0 and 1, another ratio's not below 0.

    Student's interval and the delta method know no bounds. A share whose interval reaches 0 or 1 gets Korn and
    Graubard's instead, as in :func:`grouped_share_interval`: exact, and the most cautious for so many independent
    units. Another ratio of what cannot be negative is cut off at 0.

    Parameters
    ----------
    interval
        A value, and its interval as :func:`mean_interval` or the delta method has it.
    trials
        How many independent units it is of. For fewer than ``FEWEST`` the bounds are nan: too few to tell.

    Raises
    ------
    ValueError
        If there are enough trials and the value is nan, negative, or a share above 1.

    Examples
    --------
    >>> bounded(Interval(0.5, 0.4, 0.6), 8)
    Interval(value=0.5, low=0.4, high=0.6)
    >>> [round(v, 3) for v in bounded(Interval(0.5, -0.3, 1.3), 8)]
    [0.5, 0.157, 0.843]
    >>> bounded(Interval(0.5, -0.3, 1.3), 8, share=False)
    Interval(value=0.5, low=0.0, high=1.3)
    """
    if trials < FEWEST:
        return Interval(interval.value, float("nan"), float("nan"))
    if not -ROUNDING <= interval.value <= (1 + ROUNDING if share else np.inf):
        raise ValueError(
            f"interval must hold a {'share between 0 and 1' if share else 'ratio from 0 on'}, got {interval.value}"
        )
    if not share:
        return interval._replace(low=max(interval.low, 0.0))
    inside = interval.low > 0 and interval.high < 1
    return interval if inside else _cautious(min(max(interval.value, 0.0), 1.0), trials, level)


def _cautious(share: float, trials: int | float, level: float) -> Interval:
    """Return Korn and Graubard's interval of a share of so many independent trials."""
    right, tail = share * trials, (1 - level) / 2
    low = stats.beta.ppf(tail, right, trials - right + 1) if right > 0 else 0.0
    high = stats.beta.ppf(1 - tail, right + 1, trials - right) if right < trials else 1.0
    return Interval(share, float(low), float(high))


def share_interval(hits: int, trials: int, level: float = 0.95) -> Interval:
    """Return a share with the exact (Clopper-Pearson) interval; sound for 0 hits too.

    >>> [round(v, 3) for v in share_interval(0, 100)]
    [0.0, 0.0, 0.036]
    """
    ci = stats.binomtest(int(hits), int(trials)).proportion_ci(level, method="exact")
    return Interval(hits / trials, float(ci.low), float(ci.high))


def rotations(values: np.ndarray | Sequence[float], marked: np.ndarray | Sequence[bool]) -> np.ndarray:
    """Compare the marked values with all of them, for the marks as they are and turned round by 1, 2, ...

    Turning the marks keeps how they cluster and breaks only their places: what they reach by chance, for values
    that are smooth or rare along the sequence.

    Returns
    -------
    np.ndarray
        Mean over the marked divided by mean over all; first for the marks as they are, then for each turn.

    Raises
    ------
    ValueError
        If the two differ in length, nothing is marked, or the values sum to 0.

    Examples
    --------
    >>> rotations([3.0, 0.0, 0.0], [True, False, False]).tolist()
    [3.0, 0.0, 0.0]
    """
    values, marked = np.asarray(values, float), np.asarray(marked, bool)
    if values.shape != marked.shape or values.ndim != 1 or not marked.any() or values.sum() == 0:
        raise ValueError(
            f"values must have a mark each, some of them true, and not sum to 0; got shapes "
            f"{values.shape} and {marked.shape}, {int(marked.sum())} marked, sum {values.sum():g}"
        )
    turns = np.stack([np.roll(marked, turn) for turn in range(len(marked))])
    return turns @ values / marked.sum() / values.mean()
