"""The cone of directions that are stretched most: how near rows, and random directions, come to its axis."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.statistics.intervals import share_interval
from book.lab.mathematics import stretching
from book.studies.bert_similarity.networks import Models


@dataclass(frozen=True)
class Cone:
    """How near rows come to the largest stretch: 1 is the first singular vector itself."""

    apertures: Float[np.ndarray, " aperture"]
    positions: Mapping[str, Float[np.ndarray, "map pair"]]  # trained, control, isotropic
    middle: Mapping[str, list[float]]  # medians
    best: list[float]  # of the trained model
    pairs: int
    narrow: float  # share of the pairs within 10 % of the largest stretch
    half: list[float]  # the aperture at which half of the pairs are inside


def measure_cone(subjects: Models) -> Cone:
    """Measure how near rows come to the largest stretch, and how near random directions come by chance."""
    rng, apertures = np.random.default_rng(0), np.linspace(0, 1, 101)
    place = {
        which: torch.cat([stretching.cone_positions(s, o.attention) for s in o.states], -1).flatten(1)
        for which, o in subjects.both.items()
    }
    place["isotropic"] = torch.stack(
        [
            torch.cat(
                [
                    stretching.isotropic_cone_positions(getattr(layer, f"W_{name}"), 500, rng)
                    for layer in subjects.trained.attention
                ]
            )
            for name in stretching.MAPS
        ]
    ).flatten(1)
    trained = place["trained"]
    inside = [(p[:, None] >= 1 - apertures).mean(0) for p in trained.cpu().numpy()]
    return Cone(
        apertures=apertures,
        positions={which: p.cpu().numpy() for which, p in place.items()},
        middle={which: p.median(1).values.tolist() for which, p in place.items()},
        best=trained.max(1).values.tolist(),
        pairs=trained.numel(),
        narrow=share_interval(int((trained >= 0.9).sum()), trained.numel()).value,
        half=[float(apertures[np.argmax(share >= 0.5)]) for share in inside],
    )
