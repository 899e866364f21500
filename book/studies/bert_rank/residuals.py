"""Residuals of runs: averages, what a random layer leaves of a small one, and how they are written.

A residual is relative, ``|X - 1 mean| / |X|`` in the Frobenius norm. A *run* follows it through one stack, state by
state.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

FLOOR = 1e-16  # residuals below are rounding errors
Runs = Mapping[str, Float[np.ndarray, "run state"]]


def typical(run: Float[np.ndarray, "run state"], state: int) -> float:
    """Return the geometric mean over the runs, which are stacks or texts, at one state."""
    return float(np.exp(np.log(np.maximum(run[:, state], FLOOR)).mean()))


def expected_factor(gain: float) -> float:
    """Return what a random layer with a skip connection multiplies a small residual by: (1 + g^4)^(-1/2)."""
    return (1 + gain**4) ** -0.5


def in_words(size: float) -> str:
    """Write a residual, or that it is small.

    Examples
    --------
    >>> in_words(0.456), in_words(1e-4), in_words(1e-9)
    ('0.46', '< 0.01', '< 1e-6')
    """
    return f"{size:.2f}" if size >= 0.01 else "< 0.01" if size > 1e-6 else "< 1e-6"
