"""The kernels of a whole model with rotary positions, read off its files layer by layer; no model is built."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.decomposition.rotary_terms import split_channels
from analysis.models import checkpoints
from analysis.models.families import from_checkpoint

LENGTH = 2048


def survey_folder(folder: str | Path, length: int = LENGTH) -> dict[str, np.ndarray]:
    """Survey the model in a folder in the hub's layout: ``config.json`` and safetensors files.

    One layer is held at a time. Raises as :func:`analysis.models.families.from_checkpoint` and `survey_kernels`.
    """
    layers = from_checkpoint(checkpoints.find(str(folder)), dtype=torch.float64)
    return survey_kernels((layers[i] for i in range(len(layers))), length)


def survey_kernels(layers: Iterable[AttentionLayer], length: int = LENGTH) -> dict[str, np.ndarray]:
    """Read the kernel of every head off its query and key bias.

    Layers without rotary positions are left out, and ``layer`` says which remain.

    Parameters
    ----------
    layers
        One after the other, from layer 0.
    length
        How many distances to look at, from 0.

    Returns
    -------
    dict
        ``layer (layer,)``; ``amplitude`` in nats and ``phase`` in radians, ``(layer, head, frequency)``;
        ``frequencies (layer, frequency)``; ``range`` of the kernel over the distances, in nats, ``peak``, the distance
        where it is largest, and ``cancelling``, the share of the squared length of ``b_K`` that no rotation turns (nan
        without a bias), each ``(layer, head)``.

    Raises
    ------
    ValueError
        If no layer has rotary positions, or a layer normalises queries and keys, so that its biases are no vectors of
        their own behind the norm.

    Examples
    --------
    >>> survey_kernels([])
    Traceback (most recent call last):
    ValueError: layers must have rotary positions: none of 0 has
    """
    rows, count = [], 0
    for index, layer in enumerate(layers):
        count += 1
        if isinstance(layer.positions, Rotary):
            rows.append({"layer": np.array(index), **_survey(layer, layer.positions, length)})
    if not rows:
        raise ValueError(f"layers must have rotary positions: none of {count} has")
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _survey(layer: AttentionLayer, rotary: Rotary, length: int) -> dict[str, np.ndarray]:
    if layer.qk_norm is not None and layer.biases.strip("VO"):
        raise ValueError("layers must not normalise queries and keys with biases: the kernel is not read off those")
    b_Q = layer.b_Q.double() * layer.scale * layer.channel**0.5  # the kernel itself divides by the root
    b_K = layer.b_K.double().repeat_interleave(layer.heads // layer.groups, 0)
    kernel = distance_kernel(b_Q, b_K, rotary)
    over_distance = kernel.at(torch.arange(length, dtype=torch.float64)) - kernel.constant[:, None]
    rest = split_channels(b_K, rotary)[1].square().sum(-1) / b_K.square().sum(-1)
    measured = {"amplitude": kernel.amplitude, "phase": kernel.phase, "frequencies": kernel.frequencies,
                "range": over_distance.max(-1).values - over_distance.min(-1).values,
                "peak": over_distance.argmax(-1), "cancelling": rest}
    return {name: value.cpu().numpy() for name, value in measured.items()}
