"""Averages over texts, sequences and heads, and correlations within layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor

from analysis.statistics.intervals import Interval, mean_interval

# ---- Averages over texts, sequences and heads


def mean(values: Sequence[float | Tensor]) -> float:
    """Return the mean of numbers, on whatever device each of them is.

    >>> mean([1.0, 2.0])
    1.5
    """
    return float(np.mean([float(value) for value in values]))


def interval(values: Sequence[float | Tensor]) -> Interval:
    """Return the mean over texts, one number for each, and its 95 % interval, which is nan for a single text.

    >>> interval([0.5])
    Interval(value=0.5, low=nan, high=nan)
    """
    numbers = [float(value) for value in values]
    return mean_interval(numbers) if len(numbers) > 1 else Interval(numbers[0], np.nan, np.nan)


def over_heads(values: np.ndarray, leading: int) -> np.ndarray:
    """Average over heads, where there are any, after so many leading axes and the layer.

    >>> over_heads(np.ones((2, 6, 12)), 1).shape, over_heads(np.ones((5, 2, 6)), 2).shape
    ((2, 6), (5, 2, 6))
    """
    return values.reshape(*values.shape[: leading + 1], -1).mean(-1)


def by_layer(values: np.ndarray, axis: int = 1) -> Float[np.ndarray, " layer"]:
    """Average over all axes but that of the layers.

    >>> values = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> by_layer(values).tolist(), by_layer(values, 0).tolist()
    ([2.0, 3.5], [1.5, 4.0])
    """
    return values.mean(tuple(other for other in range(values.ndim) if other != axis))


# ---- Correlations over the heads of several layers: how much of one is the heads', and how much the layers'

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
