"""What the detector reads in the maps of one layer, with its own query biases, with others, or with none."""

import numpy as np
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from analysis.maps.entropy import relative_entropy
from analysis.transformer.attention import project, softmax

DIRECTIONAL = gates.GATES.index("directional")
QUERIES = ("own", "none", "trained", "centred")
"""Whose query biases: the network's, none, the trained ones; or no common part of any origin."""


def read_layer(x: Tensor, layer: AttentionLayer, lent: Tensor, present: float) -> dict[str, np.ndarray]:
    """Read one layer's maps: shares of the gates, shares of the maps with patterns, columns under each bias.

    A map has a pattern where this carries the share ``present`` of its attention; ``lent`` are the trained biases.
    """
    queries, keys = project(x, layer.W_Q, 0 * layer.b_Q), project(x, layer.W_K, layer.b_K)
    ways = {
        "own": queries + layer.b_Q[:, None],
        "none": queries,
        "trained": queries + lent[:, None],
        "centred": queries - queries.mean(1, keepdim=True),
    }
    maps = {way: softmax(q @ keys.mT / layer.channel**0.5) for way, q in ways.items()}
    readings = {way: gates.read_gates(attention) for way, attention in maps.items()}
    own = readings["own"]
    there = own.scores[:, : len(gates.PATTERNS)] >= present
    columns = own.columns.sum(0)
    return {
        "gates": own.scores.mean(0).numpy(force=True),
        "patterned": there.any(-1).double().mean().numpy(force=True),
        "composed": (there.sum(-1) >= 2).double().mean().numpy(force=True),
        "first of columns": (columns[0] / columns.sum().clamp_min(1e-9)).numpy(force=True),
        "entropy": relative_entropy(maps["own"]).mean().numpy(force=True),
        "columns": np.array([readings[way].scores[:, DIRECTIONAL].mean().item() for way in QUERIES]),
    }
