"""What is recorded of gates: the census of MiniLM, the ladder of its controls, and maps weighted by what they carry."""

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.maps import gates
from analysis.maps.entropy import relative_entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project, softmax
from book.publish.records import Experiment, Result
from book.studies.shared.census import summarise, take_census
from book.studies.shared.documents import survey_documents
from book.studies.shared.map_counts import PRESENT

SEED = 0


def count_gates(device: torch.device) -> Result:
    """Count gates in the trained model (no prefix) and in the same architecture with random weights (``control_``).

    The control, whose heads hardly differ, reads every fourth text.
    """
    found = checkpoints.find("minilm")
    tokenizer, passages = pretrained.tokenizer(found), texts.passages()
    values, arrays, tolerances = {}, {}, {}
    for prefix, seed, some in (("", None, passages), ("control_", SEED, passages[::4])):
        model = pretrained.load(found, control_seed=seed, device=device)
        result = summarise(take_census(model, tokenizer, some), prefix)
        values |= result.values
        arrays |= result.arrays
        tolerances |= result.tolerances
    return Result(values, arrays, tolerances)


LONGEST, EACH = 128, 1  # tokens of a document, and documents of every kind for the controls
QUERIES = ("own", "none", "trained", "centred")
"""Whose query biases: the network's, none, the trained ones; or no common part of any origin."""
DIRECTIONAL = gates.GATES.index("directional")


def measure_ladder(device: torch.device) -> Result:
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


WEIGHTED_LONGEST = 96  # tokens of a document
CLASSES = ("vertical", "diagonal", "vertical and diagonal", "block", "heterogeneous")
FIRST = ("as trained", "without the query bias", "with centred queries", "contributions")
"""The share of key 0: in the maps; without b_Q; without all that queries share; and in what keys contribute."""


def weigh_maps(device: torch.device) -> Result:
    """Survey the documents."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], WEIGHTED_LONGEST)
        by_layer = [measure_layer(x, layer) for x, layer in zip(states, load(network).plain_layers())]
        return {name: np.stack([layer[name] for layer in by_layer]) for name in by_layer[0]}

    return survey_documents(measure, each_of_controls=EACH, device=device, tolerance=0.02)


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


EXPERIMENTS = {
    "minilm": Experiment(
        summary="gates of every head of MiniLM and of its control over 48 passages",
        models=("minilm",),
        compute=count_gates,
        minutes=3,
        seed=SEED,
    ),
    "ladder": Experiment(
        "Gates of MiniLM and of the ladder of its controls, and whether a query bias makes the columns",
        measure_ladder,
        models=("minilm",),
        minutes=4,
        seed=0,
    ),
    "weighted": Experiment(
        "What MiniLM's maps carry, its sink at the first token, and classes of maps, with controls",
        weigh_maps,
        models=("minilm",),
        minutes=2,
        seed=0,
    ),
}
