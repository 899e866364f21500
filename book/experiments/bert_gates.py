"""What the gate detector reads in MiniLM's maps and in its controls: of passages by head, and of documents by layer.

Of documents: gates and columns with the query biases, without and with others; what maps carry, why the first token
gets so much, and classes of maps; and what the reading hangs on: how much attention makes a gate, how strong columns
are, and if they stand in bundles.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.maps import gates
from analysis.maps.entropy import relative_entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import RANDOM, SHARP, make_controls
from analysis.models.reading import load
from analysis.transformer.attention import attend, project, softmax
from book.lab.census import summarise, take_census
from book.lab.document_ladder import survey_documents, survey_layers
from book.lab.documents import load_documents
from book.lab.map_counts import PRESENT
from book.publish.records import Experiment, Result

SEED = 0
LONGEST, LONGEST_CARRIED, EACH = 128, 96, 1
"""Tokens of a document, also where what its maps carry is measured; documents of every kind for the controls."""
DIRECTIONAL = gates.GATES.index("directional")
QUERIES = ("own", "none", "trained", "centred")
"""Whose query biases: the network's, none, the trained ones; or no common part of any origin."""
CLASSES = ("vertical", "diagonal", "vertical and diagonal", "block", "heterogeneous")
FIRST = ("as trained", "without the query bias", "with centred queries", "contributions")
"""The share of key 0: in the maps; without b_Q; without all that queries share; and in what keys contribute."""
THRESHOLDS = (0.02, 0.05, 0.1)  # of a map's attention
KINDS = ("directional",), ("open", "backward", "forward"), ("cluster",)
"""Gates of a kind: columns, diagonals, blocks."""


def count_minilm(device: torch.device) -> Result:
    """Gates of every head of MiniLM and of its control over 48 passages.

    Count gates in MiniLM and in its control, which reads every fourth text: its heads hardly differ.
    """
    passages = texts.passages()
    return count(checkpoints.find("minilm"), passages, passages[::4], device)


def count(
    checkpoint: checkpoints.Checkpoint, passages: Sequence[str], of_control: Sequence[str], device: torch.device
) -> Result:
    """Count gates in a trained model (no prefix) and in the same architecture with random weights (``control_``)."""
    tokenizer, values, arrays, tolerances = pretrained.tokenizer(checkpoint), {}, {}, {}
    for prefix, seed, some in (("", None, passages), ("control_", SEED, of_control)):
        model = pretrained.load(checkpoint, control_seed=seed, device=device)
        result = summarise(take_census(model, tokenizer, some), prefix)
        values |= result.values
        arrays |= result.arrays
        tolerances |= result.tolerances
    return Result(values, arrays, tolerances)


def survey_ladder(device: torch.device) -> Result:
    """Gates of MiniLM and of the ladder of its controls, and whether a query bias makes the columns."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, trained: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        layers, lent = load(network).plain_layers(), [layer.b_Q for layer in load(trained).layers]
        by_layer = [read_layer(x, layer, bias, PRESENT) for x, layer, bias in zip(states, layers, lent)]
        return {name: np.stack([layer[name] for layer in by_layer]) for name in by_layer[0]}

    return survey_documents(measure, each_of_controls=EACH, device=device, tolerance=0.02)


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


def survey_weighted(device: torch.device) -> Result:
    """What MiniLM's maps carry, its sink at the first token, and classes of maps, with controls."""
    return survey_layers(measure_layer, LONGEST_CARRIED, each_of_controls=EACH, device=device, tolerance=0.02)


def measure_layer(x: Tensor, layer: AttentionLayer) -> dict[str, np.ndarray]:
    """Measure what one layer's maps carry; the means are over heads."""
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


def vary_thresholds(device: torch.device) -> Result:
    """Return what `read_maps` reads, of MiniLM by document and of random weights by seed.

    The controls are *random*, with W_Q and W_K as large as MiniLM's, and *untrained*, as a training begins.
    """
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    documents, fewer = ([each.text for each in load_documents(each=count)] for count in (None, EACH))
    trained = [read_maps(network, tokenizer, text) for text in documents]
    arrays = {name: np.array([of[name] for of in trained]) for name in trained[0]}
    controls = {"untrained": RANDOM, "random": SHARP}
    seeds = {name: [] for name in controls.values()}
    for control in make_controls(
        network, lambda seed: pretrained.load(checkpoint, control_seed=seed, device=device), levels=seeds
    ):
        seeds[control.level].append([read_maps(control.network, tokenizer, text) for text in fewer])
    for control, level in controls.items():
        for name in ("holding", "kinds", "strongest"):
            arrays[f"{name} of {control}"] = np.array([np.mean([of[name] for of in seed], 0) for seed in seeds[level]])
    arrays = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, arrays, dict.fromkeys(arrays, 0.02))


def read_maps(network: torch.nn.Module, tokenizer, text: str) -> dict[str, np.ndarray]:
    """Read the maps of a text.

    Returns the shares that hold a gate, by threshold, and a column, a diagonal or blocks; the mean attention on a map's
    strongest column; and the shares of columns in bundles.
    """
    (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
    maps = torch.cat([attend(x, layer).attention for x, layer in zip(states, load(network).plain_layers())])
    reading = gates.read_gates(maps)
    largest = reading.scores[:, : len(gates.PATTERNS)].amax(1)
    of_kinds = torch.stack([sum(map(reading.score, kind)) for kind in KINDS])
    return {
        "holding": np.array([(largest >= threshold).double().mean().item() for threshold in THRESHOLDS]),
        "kinds": (of_kinds >= PRESENT).double().mean(1).numpy(force=True),
        "strongest": reading.columns.amax(1).mean().numpy(force=True),
        "in bundles": np.array(in_bundles(reading.columns)),
    }


def in_bundles(columns: torch.Tensor) -> tuple[float, float]:
    """Return the share of what columns carry ``(map, key)`` on a column with a column right beside it, and of columns.

    >>> in_bundles(torch.tensor([[0.5, 0.0, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]))
    (0.25, 0.5)
    """
    line = columns > 0
    around = torch.nn.functional.pad(line, (1, 1))
    bundled = line & (around[:, :-2] | around[:, 2:])
    shares = (columns * bundled).sum() / columns.sum().clamp_min(1e-9), bundled.sum() / line.sum().clamp_min(1)
    return shares[0].item(), shares[1].item()


EXPERIMENTS = {
    "bert-gates-minilm": Experiment(count_minilm, models=("minilm",), minutes=3, seed=SEED),
    "bert-gates-ladder": Experiment(survey_ladder, models=("minilm",), minutes=4, seed=0),
    "bert-gates-weighted": Experiment(survey_weighted, models=("minilm",), minutes=2, seed=0),
    "bert-gates-thresholds": Experiment(
        vary_thresholds,
        "Maps of MiniLM and of random weights with a gate, by the share of the attention that makes one, and by kind; "
        "their strongest columns, and columns in bundles",
        models=("minilm",),
        minutes=3,
        seed=0,
    ),
}
