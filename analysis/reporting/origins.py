"""What the inputs of a layer have in common, as the mean query and key on texts: from where parts can be counted.

The parts of a score depend on the point from which queries and keys are counted. Counted from 0 they are those of the
biases. Counted from the mean query and key they are those of the mean input, which a model without biases has too.
What belongs here: these means, and the kernel that they make with rotary positions. What does not: the kernel of the
biases (:mod:`analysis.reporting.parameters`), shares of the parts (:mod:`analysis.reporting.observations`).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Positions, Rotary
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models import attention_hooks
from analysis.transformer.attention import mask_future
from analysis.transformer.rotary import rotate

DISTANCES = 128
"""How far kernels are followed."""

Means = Sequence[tuple[Float[Tensor, "head channel"], Float[Tensor, "head channel"]]]
"""Of each layer the mean query and the mean key, before rotation, in float64; keys of a group once for each head."""


def rotate_back(rows: Float[Tensor, "*any position channel"], rotary: Rotary) -> Float[Tensor, "*any position channel"]:
    """Undo :func:`analysis.transformer.rotary.rotate` for rows at positions 0, 1, 2, ...

    Examples
    --------
    >>> rotary = Rotary(torch.tensor([1.0]), 3)
    >>> rows = torch.arange(6.0).view(2, 3)
    >>> torch.allclose(rotate_back(rotate(rows, rotary), rotary), rows, atol=1e-6)
    True
    """
    turned = rotate(rows, rotary, -torch.arange(rows.shape[-2], dtype=rows.dtype, device=rows.device))
    turned[..., : rotary.coordinates] /= rotary.attention_factor**2  # each of the two turns multiplied by it
    return turned


def mean_queries_and_keys(model: torch.nn.Module, positions: Sequence[Positions], texts: Sequence[Tensor]) -> Means:
    """Run the model on texts and average the queries and the keys of every head over all positions.

    Parameters
    ----------
    model
        In evaluation mode.
    positions
        How each of its layers turns queries and keys.
    texts
        Ids, ``(1, position)`` each; or sounds, ``(1, band, frame)`` each.

    Raises
    ------
    ValueError
        If the model's attention is not full or causal (`attention_hooks.with_attention`).
    """
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = {}  # positions, of which a sound has fewer than frames

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        rows = torch.stack([query[0], key[0]]).double()
        if isinstance(positions[layer], Rotary):
            rows = rotate_back(rows, positions[layer])
        sums[layer] = sums.get(layer, 0) + rows.sum(-2)
        counts[layer] = counts.get(layer, 0) + rows.shape[-2]
        scores = query.float() @ key.float().mT * scale
        scores = mask_future(scores) if causal else scores
        return scores.softmax(-1).to(value) @ value

    with torch.no_grad(), attention_hooks.with_attention(model, attend):
        for ids in texts:
            model(ids)
    means = [sums[layer] / counts[layer] for layer in range(len(positions))]
    return [(query, key) for query, key in means]


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
