"""How far the sentence turns as more and more of the sink's weight is taken: left out, or shared among the others.

For the viewer, which also shows one row of one map with the length of what each token brings.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project
from analysis.transformer.encoder import run_layer
from book.lab.documents import load_documents
from book.publish.records import Experiment, Record, Result, Value
from book.studies.bert_gates.removal import LONGEST, choose_sink, leave_short, renormalise, run_without, scale_up

AMOUNTS = np.linspace(0, 1, 11)  # of the sink's weight
WAYS = {"left out": leave_short, "shared out": renormalise, "others turned up": scale_up}
SENTENCE, LAYER, HEAD, QUERY = "The old bridge was closed because the river had risen in the night.", 3, 0, 4


def compute(device: torch.device) -> Result:
    """Return the effects ``(document, way, amount)``; weights and lengths of one row of one map."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    effects = []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        effects.append([[turn(states, layers, change, amount) for amount in AMOUNTS] for change in WAYS.values()])
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
    return 1 - torch.cosine_similarity(rows.mean(0), states[-1].mean(0), dim=0).item()


@dataclass(frozen=True)
class OneRow:
    """One row of one map: weights, the length of what each token brings, the tokens, and which of them looks."""

    weights: Float[np.ndarray, " key"]
    lengths: Float[np.ndarray, " key"]
    tokens: list[str]
    query: str

    def start(self) -> dict:
        """Return the state in which the viewer begins: a little of the weight is left out."""
        return {"way": "out", "amount": 10}


def one_row(record: Record) -> OneRow:
    """Read the row that the viewer shows."""
    return OneRow(record.array("weights"), record.array("lengths"), json.loads(record["tokens"]), record["query"])


EXPERIMENT = Experiment(
    "MiniLM with more and more of the sink's weight left out or shared out, for the viewer",
    compute,
    models=("minilm",),
    minutes=2,
)
