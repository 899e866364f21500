"""What MiniLM's maps carry, why its first token gets so much, and classes of maps, on 24 documents and in controls."""

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from analysis.transformer.attention import project, softmax
from book.lab.document_ladder import survey_layers
from book.lab.map_counts import PRESENT
from book.publish.records import Experiment, Result

LONGEST, EACH = 96, 1  # tokens of a document, and documents of every kind for the controls
CLASSES = ("vertical", "diagonal", "vertical and diagonal", "block", "heterogeneous")
FIRST = ("as trained", "without the query bias", "with centred queries", "contributions")
"""The share of key 0: in the maps; without b_Q; without all that queries share; and in what keys contribute."""


def compute(device: torch.device) -> Result:
    """Survey the documents."""
    return survey_layers(measure_layer, LONGEST, each_of_controls=EACH, device=device, tolerance=0.02)


def measure_layer(x: Tensor, layer: AttentionLayer) -> dict[str, np.ndarray]:
    """Measure one layer; the means are over heads."""
    queries, keys = project(x, layer.W_Q, 0 * layer.b_Q), project(x, layer.W_K, layer.b_K)
    own, bare, centred = (
        softmax(q @ keys.mT / layer.channel**0.5)
        for q in (queries + layer.b_Q[:, None], queries, queries - queries.mean(1, keepdim=True))
    )
    lengths = (project(x, layer.W_V, layer.b_V) @ layer.W_O).norm(dim=-1)
    carried = own * lengths[:, None]
    carried = carried / carried.sum(-1, keepdim=True)
    first = torch.stack([maps[..., 0].mean() for maps in (own, bare, centred, carried)])
    scores, weighted = gates.read_gates(own).scores, gates.read_gates(carried).scores
    classes = torch.stack([(classify(scores) == k).double().mean() for k in range(len(CLASSES))])
    measured = {
        "first": first,
        "weighted gates": weighted.mean(0),
        "classes": classes,
        "length of first": (lengths[:, 0] / lengths[:, 1:].mean(1)).mean(),
    }
    return {name: value.numpy(force=True) for name, value in measured.items()}


def classify(scores: Tensor) -> Tensor:
    """Return for each map ``(map, gate)`` the index of its class in ``CLASSES``, by its largest kind of pattern.

    >>> scores = torch.zeros(3, len(gates.GATES)); scores[0, 0] = scores[0, 2] = 0.2; scores[1, 4] = 0.5
    >>> [CLASSES[k] for k in classify(scores)]
    ['vertical and diagonal', 'block', 'heterogeneous']
    """
    vertical, diagonal, block = scores[:, 0], scores[:, 1:4].sum(1), scores[:, 4]
    lines = torch.where(vertical >= diagonal, 0, 1)
    lines = torch.where((vertical >= PRESENT) & (diagonal >= PRESENT), 2, lines)
    kind = torch.where(block > torch.maximum(vertical, diagonal), 3, lines)
    return torch.where(torch.stack([vertical, diagonal, block]).amax(0) >= PRESENT, kind, 4)


EXPERIMENT = Experiment(
    "What MiniLM's maps carry, its sink at the first token, and classes of maps, with controls",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
