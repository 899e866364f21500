"""What heads, gates and the sink of MiniLM are worth: each is silenced, made uniform or given away, text by text."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from analysis.core.weights import EncoderLayer
from analysis.data import texts
from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project
from analysis.transformer.encoder import run_layer
from book.lab.ablation import (
    WAYS,
    choose_gate,
    choose_sink,
    hold_volume,
    leave_short,
    measure_heads,
    measure_ways,
    renormalise,
    run_without,
    scale_up,
    turned,
)
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result, Value

TEXTS, WORDS, SEED = 8, 100, 0  # the seed also of the first document's random cells
LONGEST = 64  # tokens of a document
LENGTHS = (16, 32, 64, 96, 128, 256)  # tokens; a document with fewer is left out
SHORT = list(WAYS)[:2]
NOTHING = np.nan, [np.nan] * len(WAYS), np.nan  # what is measured of a document that is too short
AMOUNTS = np.linspace(0, 1, 11)  # of the sink's weight
CHANGES = {"left out": leave_short, "shared out": renormalise, "others turned up": scale_up}
SENTENCE, LAYER, HEAD, QUERY = "The old bridge was closed because the river had risen in the night.", 3, 0, 4


def silence_heads(device: torch.device) -> Result:
    """Effect of each head of MiniLM and of its control on the sentence embedding.

    Silence or level each head of the trained model and of its control.
    """
    found = checkpoints.find("minilm")
    tokenizer, passages = pretrained.tokenizer(found), texts.passages(longest=WORDS)[:TEXTS]
    values, arrays = {}, {}
    for prefix, seed in (("", None), ("control_", SEED)):
        model = pretrained.load(found, control_seed=seed, attention="sdpa", device=device)
        effect, whole = (measured.numpy() for measured in measure_heads(model, tokenizer, passages))
        arrays |= {f"{prefix}{way}": effect[..., i].astype(np.float32) for i, way in enumerate(("zero", "uniform"))}
        unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
        apart = (1 - unit @ unit.T)[np.triu_indices(len(unit), 1)]
        values[f"{prefix}between_texts"] = Value(float(apart.mean()), 1e-4, n=len(apart))
    return Result(values, arrays, dict.fromkeys(arrays, 1e-4))


def load_minilm(device: torch.device) -> tuple[Any, Callable[[str, int], torch.Tensor], list[EncoderLayer]]:
    """Return MiniLM's tokenizer, what gives the states of a text of so many tokens, and the layers, in float64."""
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = (
        pretrained.load(checkpoint, dtype=torch.float64, device=device),
        pretrained.tokenizer(checkpoint),
    )

    def run(text: str, longest: int) -> torch.Tensor:
        return extraction.hidden_states(network, tokenizer, [text], longest)[0]

    return tokenizer, run, load(network).encoder_layers()


def remove_cells(device: torch.device) -> Result:
    """MiniLM without the sink's column, and without the cells that the gate detector named.

    Return effects and shares: of the sink ``(document, way)``, of named cells ``(document, gate, way)``.
    """
    _, run, layers = load_minilm(device)
    sink, named = [], []
    for seed, document in enumerate(load_documents()):
        states = run(document.text, LONGEST)
        sink.append(measure_ways(states, layers, choose_sink, list(WAYS), seed))
        named.append([measure_ways(states, layers, choose_gate(gate), SHORT, seed) for gate in range(len(gates.GATES))])
    (turned, taken), (effect, share) = (np.moveaxis(np.array(found, np.float32), -1, 0) for found in (sink, named))
    arrays = {"sink": turned, "sink share": taken, "effect": effect, "share": share}
    return Result({}, arrays, {"sink": 1e-4, "sink share": 1e-4, "effect": 5e-3, "share": 0.01})


def turn_down_sink(device: torch.device) -> Result:
    """MiniLM with more and more of the sink's weight left out or shared out, for the viewer.

    Return the effects ``(document, way, amount)``; weights and lengths of one row of one map.
    """
    tokenizer, run, layers = load_minilm(device)
    effects = []
    for document in load_documents():
        states = run(document.text, LONGEST)
        effects.append([[turn(states, layers, change, amount) for amount in AMOUNTS] for change in CHANGES.values()])
    states = run(SENTENCE, LONGEST)
    x, layer = states[LAYER], layers[LAYER]
    attention = layer.attention
    lengths = (project(x, attention.W_V, attention.b_V)[HEAD] @ attention.W_O[HEAD]).norm(dim=-1)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(SENTENCE)["input_ids"])
    arrays = {
        "effect": np.array(effects, np.float32).mean(0),
        "weights": run_layer(x, layer).attention[HEAD, QUERY].numpy(force=True).astype(np.float32),
        "lengths": lengths.numpy(force=True).astype(np.float32),
    }
    values = {"tokens": Value(json.dumps(tokens)), "query": Value(tokens[QUERY])}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))


def turn(states: torch.Tensor, layers, change, amount: float) -> float:
    """Return how far the sentence turns (1 - cos) with so much of the sink's weight taken in every layer."""
    rows, _ = run_without(states[0], layers, lambda maps: amount * maps * choose_sink(maps), change)
    return turned(rows, states[-1])


def vary_lengths(device: torch.device) -> Result:
    """What MiniLM's sink is worth in texts of several lengths.

    Return by length and document the sink's share, how far each way turns the sentence, and one volume per head.
    """
    _, run, layers = load_minilm(device)
    share, effect, held = [], [], []
    for length in LENGTHS:
        found = []
        for seed, document in enumerate(load_documents(), SEED):
            states = run(document.text, length)
            found.append(measure_document(states, layers, seed) if states.shape[1] == length else NOTHING)
        share.append([each[0] for each in found])
        effect.append([each[1] for each in found])
        held.append([each[2] for each in found])
    arrays = {"share": share, "effect": effect, "held": held}
    return Result({}, {name: np.array(of, np.float32) for name, of in arrays.items()}, dict.fromkeys(arrays, 1e-4))


def measure_document(states: torch.Tensor, layers: Sequence[EncoderLayer], seed: int) -> tuple:
    """Return the sink's share of the attention, the effect of every way, and that of one volume per head."""
    found = measure_ways(states, layers, choose_sink, list(WAYS), seed)
    share = torch.stack(run_without(states[0], layers, lambda maps: maps * choose_sink(maps), lambda maps, _: maps)[1])
    rows, _ = run_without(states[0], layers, lambda maps: maps * choose_sink(maps), hold_volume)
    return share.mean().item(), [effect for effect, _ in found], turned(rows, states[-1])


EXPERIMENTS = {
    "bert-gates-ablation": Experiment(silence_heads, models=("minilm",), minutes=3, seed=SEED),
    "bert-gates-removal": Experiment(remove_cells, models=("minilm",), minutes=3, seed=SEED),
    "bert-gates-sink-dial": Experiment(turn_down_sink, models=("minilm",), minutes=2),
    "sink-lengths": Experiment(vary_lengths, models=("minilm",), minutes=3, seed=SEED),
}
