"""Averages over texts, sequences and heads."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from analysis.statistics.intervals import Interval, mean_interval


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
