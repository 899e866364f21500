"""The cone of directions that are stretched most, and what the network knows of positions and of order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import Mask
from analysis.models import extraction
from analysis.models.reading import load
from analysis.statistics.intervals import share_interval
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend
from book.lab.mathematics import stretching
from book.studies.bert_similarity.networks import Models

# ---- The cone of directions that are stretched most: how near rows, and random directions, come to its axis


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


# ---- What the network knows of positions and of order: the tables of positions, and permuted tokens


@dataclass(frozen=True)
class Positions:
    """Position tables by name, in float64, and how far their products are from knowing distance only."""

    tables: Mapping[str, Float[Tensor, "position model"]]
    sines_norm_spread: float  # standard deviation of the norms of the fixed rows
    sines_defect: float
    learned_norms: tuple[float, float]  # smallest and largest
    learned_defect: float


@dataclass(frozen=True)
class Order:
    """How far the output for permuted tokens is from the permuted output, relative to its size."""

    with_positions: float
    without_positions: float
    causal: float  # one causal layer, without positions


def measure_positions(subjects: Models) -> Positions:
    """Compare fixed sines, the model's table and a random one."""
    learned = load(subjects.checkpoint, dtype=torch.float64).positions
    drawn = torch.randn(learned.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sines, norms = positional_encodings.sinusoidal_positions(*learned.shape), learned.norm(dim=1)
    return Positions(
        tables={"fixed sines": sines, subjects.checkpoint.name: learned, "random": drawn},
        sines_norm_spread=sines.norm(dim=1).std().item(),
        sines_defect=positional_encodings.toeplitz_defect(sines @ sines.T),
        learned_norms=(norms.min().item(), norms.max().item()),
        learned_defect=positional_encodings.toeplitz_defect(learned @ learned.T),
    )


def measure_order(subjects: Models) -> Order:
    """Permute the tokens of the first text: with positions, without them, and under a causal mask."""
    network, tokens = subjects.network, subjects.tokens
    permutation = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(0))
    table = network.embeddings.position_embeddings.weight
    learned = table.clone()
    with_positions = extraction.order_sensitivity(network, tokens, permutation)
    table.zero_()
    without_positions = extraction.order_sensitivity(network, tokens, permutation)
    table.copy_(learned)
    x = subjects.control.states[0][0]
    layer = replace(subjects.control.attention[0], mask=Mask(causal=True))
    one, other = (attend(rows, layer).output for rows in (x, x[permutation]))
    causal = ((one[permutation] - other).norm() / one.norm()).item()
    return Order(with_positions, without_positions, causal)
