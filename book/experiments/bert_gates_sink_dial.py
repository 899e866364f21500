"""MiniLM with more and more of the sink's weight left out or shared out, and one row of one map, for the viewer."""

import json

import numpy as np
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project
from analysis.transformer.encoder import run_layer
from book.lab.ablation import choose_sink, leave_short, renormalise, run_without, scale_up, turned
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result, Value

LONGEST = 64  # tokens of a document
AMOUNTS = np.linspace(0, 1, 11)  # of the sink's weight
CHANGES = {"left out": leave_short, "shared out": renormalise, "others turned up": scale_up}
SENTENCE, LAYER, HEAD, QUERY = "The old bridge was closed because the river had risen in the night.", 3, 0, 4


def compute(device: torch.device) -> Result:
    """Return the effects ``(document, way, amount)``; weights and lengths of one row of one map."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    effects = []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        effects.append([[turn(states, layers, change, amount) for amount in AMOUNTS] for change in CHANGES.values()])
    (states,) = extraction.hidden_states(network, tokenizer, [SENTENCE], LONGEST)
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


EXPERIMENT = Experiment(
    "MiniLM with more and more of the sink's weight left out or shared out, for the viewer",
    compute,
    models=("minilm",),
    minutes=2,
)
