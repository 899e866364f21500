"""Averages over texts, with their intervals."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.statistics.intervals import Interval
from book.studies.shared.averages import interval


def over_texts(values: Float[np.ndarray, "text layer"]) -> Float[np.ndarray, "layer 3"]:
    """Return the mean over texts and its interval, in every layer."""
    return np.array([interval(column) for column in values.T])


def rank_correlation(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> Interval:
    """Return the mean over texts of the rank correlation of two quantities.

    Examples
    --------
    >>> values = [np.array([1.0, 2.0, 3.0])] * 2
    >>> rank_correlation(values, values).value
    1.0
    """
    return interval([float(spearmanr(np.ravel(a), np.ravel(b)).statistic) for a, b in zip(first, second, strict=True)])


def depth_correlation(values: Float[np.ndarray, "text layer"]) -> Interval:
    """Return the mean over texts of the rank correlation with depth."""
    return rank_correlation(values, [np.arange(values.shape[1])] * len(values))
