"""Correlations over the heads of several layers: how much of one is the heads', and how much the layers'."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from analysis.statistics.intervals import Interval

DRAWS = 2000  # shuffles of the heads of each layer


@dataclass(frozen=True)
class WithinLayers:
    """A rank correlation over heads, with their layer held fixed, and what the layers alone give."""

    value: float
    """Spearman's correlation of the ranks that the heads have in their layers: the mean of those of the layers."""
    chance: float
    """The share of shuffles of the heads within their layers that bring ``value`` as far from 0."""
    by_layer: Float[np.ndarray, " layer"]
    shuffled: Interval
    """The correlation over *all* heads after such shuffles: their mean, and where 95 % of them lie. What remains
    there is the layers', since a shuffle destroys every link of a head with its own number."""


def correlate_within_layers(
    first: Float[np.ndarray, "layer head"], second: Float[np.ndarray, "layer head"]
) -> WithinLayers:
    """Correlate two numbers of each head within the layers, and over all heads with the second number shuffled.

    In the example both numbers grow with the layer, and within layers they run against each other.

    >>> from scipy.stats import spearmanr
    >>> first = 10.0 * np.arange(3)[:, None] + np.arange(5)
    >>> found = correlate_within_layers(first, first[:, ::-1])
    >>> round(found.value, 6), round(float(spearmanr(first.ravel(), first[:, ::-1].ravel()).statistic), 2)
    (-1.0, 0.79)
    >>> found.chance < 0.01, bool(found.shuffled.low > 0.8)
    (True, True)
    """
    generator = np.random.default_rng(0)
    order = generator.permuted(np.tile(np.arange(first.shape[1]), (DRAWS, first.shape[0], 1)), axis=-1)
    own, other = (_standardise(rankdata(table, axis=1)) for table in (first, second))
    by_layer = (own * other).mean(-1)
    drawn = (own * np.take_along_axis(other[None], order, axis=-1)).mean((-2, -1))
    value = by_layer.mean()
    pooled = [_standardise(rankdata(table)).reshape(first.shape) for table in (first, second)]
    over_all = (pooled[0] * np.take_along_axis(pooled[1][None], order, axis=-1)).mean((-2, -1))
    low, high = np.quantile(over_all, [0.025, 0.975])
    return WithinLayers(
        value=float(value),
        chance=float((abs(drawn) >= abs(value) - 1e-9).mean()),
        by_layer=by_layer,
        shuffled=Interval(float(over_all.mean()), float(low), float(high)),
    )


def _standardise(ranks: np.ndarray) -> np.ndarray:
    """Shift and scale ranks to mean 0 and variance 1 along the last axis; nan where all are tied."""
    return (ranks - ranks.mean(-1, keepdims=True)) / ranks.std(-1, keepdims=True)
