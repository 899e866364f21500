"""A model and its controls, one after another, each measured on the same texts."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.models.controls import RUNGS, make_controls
from analysis.reporting.observations import Observations, add_text


def fresh_model(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Return a model of the same configuration with random weights, as its library initialises it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).dtype).eval().requires_grad_(False).to(model.device)


def observe_controls(
    model: torch.nn.Module, texts: Sequence[Tensor], seeds: Sequence[int], shape: tuple[int, int]
) -> Iterator[tuple[str, int, Observations]]:
    """Measure every control on texts: random weights, random ones as large, the model's own out of order.

    Parameters
    ----------
    texts
        Ids, ``(1, position)`` each.
    seeds
        Of each rung.
    shape
        Layers and heads.

    Yields
    ------
    tuple
        The rung, the seed and what was seen, as soon as one is measured.
    """
    for rung, seed, network in make_controls(model, lambda seed: fresh_model(model, seed), seeds=seeds):
        sums = Observations.empty(*shape)
        for ids in texts:
            add_text(sums, network, ids)
        yield rung, seed, sums


def ladder_of(controls: Mapping[str, Sequence[Observations]], read) -> dict[str, np.ndarray]:
    """Return one number of every control, ``(seed, layer)`` by rung, in the order of the ladder.

    >>> ladder_of({}, read=None)
    {}
    """
    return {rung: np.stack([read(observed) for observed in controls[rung]]) for rung in RUNGS if rung in controls}
