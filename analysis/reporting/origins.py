"""What the inputs of a layer have in common, as the mean query and key on texts: from where parts can be counted.

The parts of a score depend on the point from which queries and keys are counted. Counted from 0 they are those of the
biases. Counted from the mean query and key they are those of the mean input, which a model without biases has too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.reading import AnyModel, load
from analysis.surveys.layer_runs import LayerOnText, visit_layers

DISTANCES = 128
"""How far kernels are followed."""

Means = Sequence[tuple[Float[Tensor, "head channel"], Float[Tensor, "head channel"]]]
"""Of each layer the mean query and the mean key, before rotation, in float64; keys of a group once for each head."""


def mean_queries_and_keys(model: AnyModel, texts: Sequence[Tensor]) -> Means:
    """Average each head's queries and keys over texts, ids ``(1, position)``, or over sounds ``(1, band, frame)``."""
    read = load(model)
    sums: list[Any] = [0.0] * len(read.layers)
    count = 0  # positions, of which a sound has fewer than frames

    def add(seen: LayerOnText) -> None:
        nonlocal count
        sums[seen.number] = sums[seen.number] + torch.stack(seen.queries_and_keys(turned=False)).double().sum(-2)
        count += len(seen.x) * (seen.number == 0)

    for ids in texts:
        visit_layers(read, ids, add)
    return [(query, key) for query, key in (of / count for of in sums)]


def kernel(
    query: Float[Tensor, "head channel"],
    key: Float[Tensor, "head channel"],
    rotary: Rotary,
    scale: float,
    distances: int = DISTANCES,
) -> Float[np.ndarray, "head distance"]:
    r"""Return the score of one query and one key of each head by distance, in nats, each head's mean taken off.

    .. math::  D(\Delta) = \mathrm{scale} \cdot q R_\Delta k^\top

    Examples
    --------
    >>> quarter = Rotary(torch.tensor([torch.pi / 2]).double(), 2)
    >>> one = torch.tensor([[1.0, 0.0]])
    >>> kernel(one, one, quarter, 2.0, distances=4).round() + 0
    array([[ 2.,  0., -2.,  0.]])
    """
    unit = scale * query.shape[-1] ** 0.5  # distance_kernel itself divides by the root
    line = distance_kernel(unit * query.double(), key.double(), rotary).at(
        torch.arange(distances, dtype=torch.float64, device=query.device)
    )
    return (line - line.mean(-1, keepdim=True)).cpu().numpy()
