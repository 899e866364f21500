"""One measure of a network on all of its controls."""

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float

from analysis.models.controls import RUNGS, Control


def measure_controls(
    controls: Iterable[Control], measure: Callable[..., np.ndarray]
) -> Float[np.ndarray, "rung seed *measure"]:
    """Measure each control's network, by rung in the order of ``RUNGS`` and by seed.

    Examples
    --------
    >>> controls = [Control(rung, seed, 10 * k + seed) for seed in (0, 1) for k, rung in enumerate(RUNGS)]
    >>> measure_controls(controls, np.float64)[:, 1].tolist()
    [1.0, 11.0, 21.0]
    """
    by_rung: dict[str, list[np.ndarray]] = {rung: [] for rung in RUNGS}
    for control in controls:
        by_rung[control.rung].append(measure(control.network))
    return np.stack([np.stack(of_seeds) for of_seeds in by_rung.values()])
