"""A model and its controls, one after another in the memory of one network, each measured on the same texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch

from analysis.models.controls import LARGE, LEVELS, PERMUTED, RANDOM, fresh_model, permute_into, scale_in_place
from analysis.reporting.observations import Observations


def observe_controls(
    model: torch.nn.Module, see: Callable[[torch.nn.Module], Observations], seeds: Sequence[int]
) -> Iterator[tuple[str, int, Observations]]:
    """Measure every control: random weights, random ones as large, the model's own out of order.

    All three of a seed are made in one network, so that beside the model no more than one is alive.

    Parameters
    ----------
    see
        Measures a network, and keeps nothing of it.
    seeds
        Random seeds per control level.

    Yields
    ------
    tuple
        The control level, the seed and what was seen, as soon as one is measured.
    """
    for seed in seeds:
        network = fresh_model(model, seed)
        yield RANDOM, seed, see(network)
        scale_in_place(network, model)
        yield LARGE, seed, see(network)
        permute_into(network, model, seed)
        yield PERMUTED, seed, see(network)
        del network  # before the next is made


def ladder_of(controls: Mapping[str, Sequence[Observations]], read) -> dict[str, np.ndarray]:
    """Return one number of every control, ``(seed, layer)`` by control level, in the order of the ladder.

    >>> ladder_of({}, read=None)
    {}
    """
    return {level: np.stack([read(observed) for observed in controls[level]]) for level in LEVELS if level in controls}
