"""Patterns of a whole model as it reads text: what its parts and angles tell, and in which space they can be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.decomposition import qk_ov
from analysis.models import checkpoints
from analysis.transformer.attention import compute_scores, mask_future, project
from book.publish import Inputs, Numbers
from book.studies.patterns_and_messages import readings
from book.studies.shared.equality import draw


@dataclass(frozen=True)
class Example:
    """Scores of the head whose two parts are most nearly of one size, on one text: ``(query, key)``, in nats."""

    layer: int
    head: int
    varying: np.ndarray
    constant: np.ndarray


@dataclass(frozen=True)
class Spaces(Numbers):
    """How often the key nearest by angle is the key with the largest score, over all heads and rows of a model.

    To a pattern in the space of the stream; to a query in its head's own space; and there once more after a random
    change of the factors, which leaves the layer as it is.
    """

    nearest_to_pattern: float
    nearest_to_query: float
    nearest_to_turned_query: float


@dataclass(frozen=True)
class Readings(Numbers):
    """What ``readings.readings`` says of each head of a whole model on text, ``(layer, head)``, beside its control.

    The numbers on the constant part are its share of the variance of scores and, of that, the query bias's.
    """

    model: str
    constant_range: str
    constant_control: str
    query_bias_range: str
    influence: str
    influence_control: str
    trained: Mapping[str, np.ndarray]
    control: Mapping[str, np.ndarray]
    example: Example


def measure_readings(inputs: Inputs) -> Readings:
    """Read the patterns of a whole model on text, and of its control."""
    checkpoint = checkpoints.find(inputs.model)
    which = {"source": inputs.texts, "device": inputs.device}
    trained, control = (
        {
            name: values.cpu().numpy()
            for name, values in readings.readings(checkpoint, control_seed=seed, **which).items()
        }
        for seed in (None, 0)
    )
    constant, influence = trained["constant"], trained["influence"]
    layer, head = divmod(int(np.abs(constant - 0.5).argmin()), constant.shape[1])
    weights, rows = next(readings.layers(checkpoint, **which))[layer]
    varying, common, semi_bias = (part[head].cpu().numpy() for part in readings.parts(rows, weights))
    return Readings(
        model=Path(inputs.model).name,
        constant_range=f"{constant.min():.0%} to {constant.max():.0%}",
        constant_control=f"{control['constant'].max():.0%}",
        query_bias_range=f"{100 * trained['query bias'].min():.0f} to {100 * trained['query bias'].max():.0f} %",
        influence=f"{influence.min():.0%} to {influence.max():.0%}",
        influence_control=f"{control['influence'].mean():.0%}",
        trained=trained,
        control=control,
        example=Example(layer, head, varying, common + semi_bias),
    )


def measure_spaces(inputs: Inputs) -> Spaces:
    """Ask in each space how often the key that is nearest by angle is the key with the largest score."""
    hits = {"pattern": [], "query": [], "query, other factors": []}
    for passage in readings.layers(checkpoints.find(inputs.model), source=inputs.texts, device=inputs.device):
        for weights, x in passage:
            G = draw(weights.heads, weights.channel, weights.channel, seed=5, device=inputs.device)
            best = mask_future(compute_scores(x, weights)).argmax(-1)[:, readings.SEEN :]
            nearest = {
                "pattern": nearest_rows(qk_ov.patterns(x, weights), x),
                "query": nearest_to_queries(x, weights),
                "query, other factors": nearest_to_queries(x, qk_ov.change_gauge(weights, G)),
            }
            for space, keys in nearest.items():
                hits[space].append((keys == best).flatten())
    return Spaces(*(torch.cat(hits[space]).double().mean().item() for space in hits))


def nearest_to_queries(x: Residual, weights: AttentionLayer) -> Tensor:
    """Return, ``(head, query)``, the key at the smallest angle to each query in the head's own space."""
    return nearest_rows(project(x, weights.W_Q, weights.b_Q), project(x, weights.W_K, weights.b_K))


def nearest_rows(rows: Tensor, keys: Tensor) -> Tensor:
    """Return which of the keys that it may see is at the smallest angle to each row; the first rows are left out."""
    unit_rows, unit_keys = (tensor / tensor.norm(dim=-1, keepdim=True) for tensor in (rows, keys))
    return mask_future(unit_rows @ unit_keys.mT).argmax(-1)[:, readings.SEEN :]
