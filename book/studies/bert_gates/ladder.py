"""Gates of MiniLM on documents of four kinds, and of the ladder of its controls; and what makes the columns there.

Maps are read four times: as they are, with the network's query biases taken away, with the trained ones in their
place, and with every head's queries centred, which leaves no part that all queries share.
"""

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from analysis.maps.entropy import relative_entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.surveys.map_counts import PRESENT
from analysis.transformer.attention import project, softmax
from book.publish.records import Experiment, Result
from book.studies.shared.documents import survey_documents

LONGEST, EACH = 128, 1  # tokens of a document, and documents of every kind for the controls
QUERIES = ("own", "none", "trained", "centred")
"""Whose query biases: the network's, none, the trained ones; or no common part of any origin."""
DIRECTIONAL = gates.GATES.index("directional")


def compute(device: torch.device) -> Result:
    """Read the maps of the documents."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, trained: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        layers, lent = load(network).plain_layers(), [layer.b_Q for layer in load(trained).layers]
        by_layer = [read_layer(x, layer, bias) for x, layer, bias in zip(states, layers, lent)]
        return {name: np.stack([layer[name] for layer in by_layer]) for name in by_layer[0]}

    return survey_documents(measure, each_of_controls=EACH, device=device, tolerance=0.02)


def read_layer(x: Tensor, layer: AttentionLayer, lent: Tensor) -> dict[str, np.ndarray]:
    """Read one layer's maps: shares of the gates, shares of the maps with patterns, columns under each bias."""
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
    there = own.scores[:, : len(gates.PATTERNS)] >= PRESENT
    columns = own.columns.sum(0)
    return {
        "gates": own.scores.mean(0).numpy(force=True),
        "patterned": there.any(-1).double().mean().numpy(force=True),
        "composed": (there.sum(-1) >= 2).double().mean().numpy(force=True),
        "first of columns": (columns[0] / columns.sum().clamp_min(1e-9)).numpy(force=True),
        "entropy": relative_entropy(maps["own"]).mean().numpy(force=True),
        "columns": np.array([readings[way].scores[:, DIRECTIONAL].mean().item() for way in QUERIES]),
    }


EXPERIMENT = Experiment(
    "Gates of MiniLM and of the ladder of its controls, and whether a query bias makes the columns",
    compute,
    models=("minilm",),
    minutes=4,
    seed=0,
)
