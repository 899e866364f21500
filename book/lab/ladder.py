"""A trained network, its control, and one measure of a network on all of its controls."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.data import texts
from analysis.models.controls import LEVELS, Control
from book.publish import Inputs, live_or_record

# ---- A trained network and its control, the same architecture with random weights, and a survey of both

Arrays = Mapping[str, Mapping[str, np.ndarray]]
"""By network, then by name."""
CONTROL = "control_"
SEEDS = {"trained": None, "control": 0}
"""The two networks, and the seed that :func:`analysis.models.pretrained.load` takes for each."""


@dataclass(frozen=True)
class Survey:
    """What was measured of both networks, and the sentence that says where it comes from."""

    arrays: Arrays
    source: str


def load_survey(name: str, survey: Callable[..., Mapping[str, np.ndarray]], inputs: Inputs, count: int) -> Survey:
    """Load the record of a survey, or survey the reader's model and texts.

    ``survey`` measures a model, given by name or folder, on passages, for a reader at most ``count`` of them.
    """
    if inputs.departs:
        passages = texts.passages(count=count, source=inputs.texts)
        return Survey(by_network(survey(inputs.model, passages, device=inputs.device)), "Computed just now.")
    record, source = live_or_record(name, inputs)
    return Survey(by_network(record.arrays), source)


def by_network(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Sort the arrays of a survey by network: the names of the control's begin with ``control_``.

    >>> by_network({"cosine": np.zeros(1), "control_cosine": np.ones(1)})
    {'trained': {'cosine': array([0.])}, 'control': {'cosine': array([1.])}}
    """
    control = {name.removeprefix(CONTROL): values for name, values in arrays.items() if name.startswith(CONTROL)}
    return {
        "trained": {name: values for name, values in arrays.items() if not name.startswith(CONTROL)},
        "control": control,
    }


# ---- One measure of a network on all of its controls


def measure_controls(
    controls: Iterable[Control], measure: Callable[..., np.ndarray]
) -> Float[np.ndarray, "level seed *measure"]:
    """Measure each control's network, by level in the order of ``LEVELS`` and by seed.

    >>> controls = [Control(level, seed, 10 * k + seed) for seed in (0, 1) for k, level in enumerate(LEVELS)]
    >>> measure_controls(controls, np.float64)[:, 1].tolist()
    [1.0, 11.0, 21.0]
    """
    by_level: dict[str, list[np.ndarray]] = {level: [] for level in LEVELS}
    for control in controls:
        by_level[control.level].append(measure(control.network))
    return np.stack([np.stack(of_seeds) for of_seeds in by_level.values()])
