"""Averages of numbers that lie on any device, one number a text."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from analysis.statistics.intervals import Interval, mean_interval


def mean(values: Sequence[Tensor]) -> float:
    """Return the mean of single numbers."""
    return float(np.mean([float(v) for v in values]))


def interval_over_texts(values: Sequence[Tensor]) -> Interval:
    """Return the mean over texts with its 95 % interval; of one text the bounds are nan."""
    numbers = [float(v) for v in values]
    return mean_interval(numbers) if len(numbers) > 1 else Interval(numbers[0], math.nan, math.nan)
