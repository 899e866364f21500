"""Three objections to what is said of columns and of the sink, each tried on its own.

Random weights as large as MiniLM's have columns. Are large weights enough? BERT adds one vector, that of the first
token type, to every token; here it is 0, and nothing else changes. Are the weights alone as large? The LayerNorms of a
new network make longer vectors than MiniLM's, so its queries and keys are longer, too; here they are scaled to the same
length. And the sink turns down what a head adds. Does each word turn it for itself? Here each row gives the first token
what its head gives it on average.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import SHARP, make_controls
from analysis.models.reading import load
from analysis.transformer.attention import project
from book.experiments.bert_gates import DIRECTIONAL, read_layer
from book.lab.ablation import choose_sink, hold_volume, run_without, turned
from book.lab.documents import load_documents
from book.lab.map_counts import PRESENT
from book.publish.records import Experiment, Result

LONGEST, EACH = 128, 1  # tokens of a document, and documents of every kind
SINK_LONGEST = 64  # tokens of a document whose sink is held
TYPES = (True, False)
"""With what BERT adds to every token, and without it."""


def rows_of(network: torch.nn.Module, tokenizer, texts: list[str]) -> list[Tensor]:
    """Return what every layer reads of each text, ``(layer, row, channel)``."""
    return [extraction.hidden_states(network, tokenizer, [text], LONGEST)[0] for text in texts]


def rms_lengths(layer: AttentionLayer, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the root mean square lengths ``(head,)`` of the queries and of the keys of all rows of all texts."""
    queries, keys = (
        torch.stack([project(x, W, b).square().sum(-1).mean(-1) for x in rows]).mean(0).sqrt()
        for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K))
    )
    return queries, keys


def give_lengths(layer: AttentionLayer, rows: Sequence[Tensor], due: tuple[Tensor, Tensor]) -> AttentionLayer:
    """Return the layer with the queries and keys of each head scaled until they have the lengths that are due."""
    q, k = (wanted / own for wanted, own in zip(due, rms_lengths(layer, rows), strict=True))
    scaled = {"W_Q": layer.W_Q * q[:, None, None], "W_K": layer.W_K * k[:, None, None]}
    return replace(layer, **scaled, b_Q=layer.b_Q * q[:, None], b_K=layer.b_K * k[:, None])


def read_maps(network: torch.nn.Module, rows: list[Tensor], due: list[tuple[Tensor, Tensor]] | None = None) -> dict:
    """Read all maps on the network's own rows, by text ``(layer, row, channel)``; queries and keys as long as is due.

    Returns columns and patterns, means over all maps, and the entropy ``(layer,)``.
    """
    found = []
    for n, layer in enumerate(load(network).plain_layers()):
        inputs = [x[n] for x in rows]
        scaled = layer if due is None else give_lengths(layer, inputs, due[n])
        found.append([read_layer(x, scaled, scaled.b_Q, PRESENT) for x in inputs])
    return {
        "columns": np.mean([text["gates"][DIRECTIONAL] for layer in found for text in layer]),
        "patterned": np.mean([text["patterned"] for layer in found for text in layer]),
        "entropy": np.array([np.mean([text["entropy"] for text in layer]) for layer in found]),
    }


@torch.no_grad()
def columns_of(network: torch.nn.Module, tokenizer, texts: list[str], *, typed: bool) -> tuple[float, float]:
    """Return the share of the attention on columns and the share of maps with a pattern, with or without the type."""
    types = network.embeddings.token_type_embeddings.weight
    kept = types.clone()
    types.mul_(typed)
    found = read_maps(network, rows_of(network, tokenizer, texts))
    types.copy_(kept)
    return float(found["columns"]), float(found["patterned"])


def compute(device: torch.device) -> Result:
    """Return columns and patterns ``(seed, with and without the type)``, and by document how far the sentence turns.

    Then columns, patterns and entropy of random queries and keys as long as MiniLM's, and MiniLM's own entropy.
    """
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    trained = pretrained.load(checkpoint, device=device)
    texts, found, as_long = [document.text for document in load_documents(each=EACH)], [], []
    rows = rows_of(trained, tokenizer, texts)
    due = [rms_lengths(layer, [x[n] for x in rows]) for n, layer in enumerate(load(trained).plain_layers())]
    own = read_maps(trained, rows)["entropy"]
    for control in make_controls(
        trained, lambda seed: pretrained.load(checkpoint, control_seed=seed, device=device), levels=(SHARP,)
    ):
        found.append([columns_of(control.network, tokenizer, texts, typed=typed) for typed in TYPES])
        as_long.append(read_maps(control.network, rows_of(control.network, tokenizer, texts), due))
    network = trained.double()
    layers, held = load(network).encoder_layers(), []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], SINK_LONGEST)
        rows, _ = run_without(states[0], layers, lambda maps: maps * choose_sink(maps), hold_volume)
        held.append(turned(rows, states[-1]))
    columns, patterned = np.moveaxis(np.array(found, np.float32), -1, 0)
    arrays = {"columns": columns, "patterned": patterned, "held": np.array(held, np.float32)}
    arrays |= {f"{name} as long": np.array([seed[name] for seed in as_long], np.float32) for name in as_long[0]}
    arrays["entropy of MiniLM"] = own.astype(np.float32)
    tolerances = {"columns": 0.01, "patterned": 0.02, "held": 1e-4}
    tolerances |= {f"{name} as long": 0.02 for name in as_long[0]} | {"entropy of MiniLM": 0.005}
    return Result({}, arrays, tolerances)


EXPERIMENT = Experiment(
    compute,
    "Columns of large random weights without what BERT adds to every token, and with queries and keys "
    "as long as MiniLM's; MiniLM's sink as one setting per head",
    models=("minilm",),
    minutes=4,
    seed=0,
)
