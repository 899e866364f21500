"""The kernels of a whole model with rotary positions, read off its files layer by layer; no model is built."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_channels import split_channels
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.layers import QueriesAndKeys
from analysis.models.reading import load

LENGTH = 2048


def survey_model(name: str | Path, length: int = LENGTH) -> dict[str, np.ndarray]:
    """Survey a model by name or folder, as `analysis.models.checkpoints.find` takes it.

    One layer is held at a time, of it only what makes queries and keys, in float32: a model of 7 billion parameters
    needs less memory than its own table of tokens. Raises as `analysis.models.reading.load` and `survey_kernels`.
    """
    model = load(name)
    return survey_kernels((model.queries_and_keys(i) for i in range(len(model.layers))), length)


def survey_kernels(layers: Iterable[QueriesAndKeys], length: int = LENGTH) -> dict[str, np.ndarray]:
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
        ``frequencies (layer, frequency)``. Each ``(layer, head)``: ``range`` of the kernel over the distances, in
        nats; ``range_folded``, that with what the bias of the norm before the layer adds; ``peak``, the distance where
        it is largest; ``cancelling``, the share of the squared length of ``b_K`` that no rotation turns, nan without a
        bias; ``query_bias`` and ``key_bias``, the lengths; ``sink``, the score of the head's sink, nan without one.

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


def _survey(layer: QueriesAndKeys, rotary: Rotary, length: int) -> dict[str, np.ndarray]:
    if layer.normalised and layer.biases:
        raise ValueError("layers must not normalise queries and keys with biases: the kernel is not read off those")
    heads, groups = len(layer.b_Q), len(layer.b_K)
    unit = layer.scale * layer.b_Q.shape[1] ** 0.5  # the kernel itself divides by the root
    b_Q, b_K = layer.b_Q.double(), layer.b_K.double()
    shift = torch.zeros(layer.W_Q.shape[1]) if layer.norm is None else layer.norm.bias
    folded_Q, folded_K = (b + (shift.to(W) @ W).double() for b, W in ((b_Q, layer.W_Q), (b_K, layer.W_K)))
    b_K, folded_K = (b.repeat_interleave(heads // groups, 0) for b in (b_K, folded_K))
    kernel, folded = distance_kernel(unit * b_Q, b_K, rotary), distance_kernel(unit * folded_Q, folded_K, rotary)
    distances = torch.arange(length, dtype=torch.float64)
    over_distance, with_norm = (of.at(distances) - of.constant[:, None] for of in (kernel, folded))
    rest = split_channels(b_K, rotary)[1].square().sum(-1) / b_K.square().sum(-1)
    sinks = torch.full((heads,), torch.nan) if layer.sinks is None else layer.sinks
    measured = {
        "amplitude": kernel.amplitude,
        "phase": kernel.phase,
        "frequencies": kernel.frequencies,
        "range": over_distance.max(-1).values - over_distance.min(-1).values,
        "range_folded": with_norm.max(-1).values - with_norm.min(-1).values,
        "peak": over_distance.argmax(-1),
        "cancelling": rest,
        "query_bias": b_Q.norm(dim=-1),
        "key_bias": b_K.norm(dim=-1),
        "sink": sinks,
    }
    return {name: value.cpu().numpy() for name, value in measured.items()}
