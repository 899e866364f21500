"""Every head of MiniLM and gpt2-mini on four sentences: maps, gates, what moves with the values, parts, silencing.

Arrays are ``(sentence, layer, head, query, key)`` for the longest sentence; what a sentence lacks is 0. Weights are
kept as ``round(255 sqrt(w))``; a cell's gate is its index in ``GATES`` plus 1, and 0 where a query may not look.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.decomposition.terms import score_terms
from analysis.maps import gates
from analysis.maps.distance import mean_total_variation
from analysis.maps.entropy import row_entropy
from analysis.maps.gates import ideal
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer import constructed_heads as constructed
from analysis.transformer.attention import project, softmax
from book.publish.records import Experiment, Result, Value

MODELS = {"minilm": "base", "gpt2-mini": "lm"}
SENTENCES = (
    "The cat that the dog chased ran up the tree, and the dog waited.",
    "If the key is not found, the default value is returned.",
    "She put the old book on the table near the old lamp.",
    "A function that returns a function is a decorator.",
)
CONSTRUCTED = (
    "equal weights",
    "the first token",
    "the last token",
    "the previous token",
    "equal tokens",
    "late positions",
    "the token itself",
    "the next token",
)


@dataclass(frozen=True)
class Reading:
    """What all heads of a model do with one sentence."""

    tokens: list[str]
    weights: Float[Tensor, "layer head query key"]
    lengths: Float[Tensor, "layer head key"]  # of the values after W_O
    content: Float[Tensor, "layer head"]  # the content's share of the scores' variance along the keys
    distances: Float[Tensor, "layer head constructed"]


def compute(device: torch.device) -> Result:
    """Every head of MiniLM and gpt2-mini on four sentences, for the atlas of heads."""
    values = {"gates": Value(", ".join(gates.GATES)), "constructed": Value(", ".join(CONSTRUCTED))}
    arrays = {}
    for name, task in MODELS.items():
        checkpoint = checkpoints.find(name)
        tokenizer = pretrained.tokenizer(checkpoint)
        model = pretrained.load(checkpoint, task=task, dtype=torch.float64, device=device)
        readings = [read(model, tokenizer, text) for text in SENTENCES]
        values[f"{name}_tokens"] = Value(json.dumps([reading.tokens for reading in readings]))
        found = pack(readings, causal=name == "gpt2-mini") | {"effect": effects(model, tokenizer)}
        arrays |= {f"{name}_{key}": array for key, array in found.items()}
    steps = {key: 1 if key.endswith(("weights", "gates", "nearest")) else 1e-3 for key in arrays}
    steps |= {key: len(gates.GATES) for key in arrays if key.endswith("gates")}  # ties between gates may fall otherwise
    return Result(values, arrays, steps)


@torch.no_grad()
def read(model: torch.nn.Module, tokenizer, text: str) -> Reading:
    """Run a model on a sentence; take its heads' scores and values apart."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"].to(model.device)
    out = model(ids, output_hidden_states=True, output_attentions=True)
    layers = load(model).plain_layers()
    inputs = extraction.attention_inputs(model, [state[0] for state in out.hidden_states])
    weights = torch.stack([maps[0] for maps in out.attentions])
    lengths = torch.stack(
        [
            torch.einsum("hkc,hcm->hkm", project(x, layer.W_V, layer.b_V), layer.W_O).norm(dim=-1)
            for x, layer in zip(inputs, layers, strict=False)
        ]
    )
    causal = bool(weights.triu(1).max() == 0)
    content = torch.stack([content_share(x, layer, causal=causal) for x, layer in zip(inputs, layers, strict=False)])
    tokens = [tokenizer.decode([i]).strip() or "\u2423" for i in ids[0].tolist()]
    distances = torch.stack([mean_total_variation(maps, ideal_maps(ids[0], causal=causal)) for maps in weights])
    return Reading(tokens, weights, lengths, content, distances)


def content_share(x: Float[Tensor, "position model"], layer, *, causal: bool) -> Float[Tensor, " head"]:
    """Return the content's share of the variance along the keys, that of content and semi-bias added."""
    terms = score_terms(x, layer)
    seen = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device)
    seen = seen.tril() if causal else seen
    own, other = (spread(part, seen) for part in (terms.content, terms.semi_bias.expand_as(terms.content)))
    return own / (own + other)


def spread(scores: Float[Tensor, "head query key"], seen: Tensor) -> Float[Tensor, " head"]:
    """Return the variance of scores along the keys that a query sees, mean over queries.

    >>> spread(torch.tensor([[[1.0, 3.0], [2.0, 2.0]]]), torch.ones(2, 2).bool())
    tensor([0.5000])
    """
    count = seen.sum(-1, keepdim=True)
    mean = (scores * seen).sum(-1, keepdim=True) / count
    return ((scores - mean).square() * seen).sum(-1).div(count[:, 0]).mean(-1)


def ideal_maps(ids: Tensor, *, causal: bool) -> Float[Tensor, "constructed query key"]:
    """Return the maps of heads built by formula on these tokens, in the order of :data:`CONSTRUCTED`.

    Where later keys are masked there is no next token, and its place is taken by equal weights once more.
    """
    numbers = torch.unique(ids.cpu(), return_inverse=True)[1]
    vocab, n = int(numbers.max()) + 1, len(numbers)
    future = torch.ones(n, n).triu(1).bool() & causal

    def at(position: int):
        scores = torch.zeros(n, n, dtype=torch.float64)
        scores[:, position] = constructed.SHARP
        return softmax(scores.masked_fill(future, -torch.inf))

    heads = (
        constructed.previous_token(vocab, n),
        constructed.matched_token(vocab, n),
        constructed.position_bias(vocab, n),
    )
    built = [constructed.attention_map(head, numbers, causal=causal) for head in heads]
    even = constructed.attention_map(constructed.uniform(vocab, n), numbers, causal=causal)
    own, following = ideal.open_gate(n), even if causal else ideal.forward(n, 1)
    return torch.stack([even, at(0), at(n - 1), *built, own, following])


def pack(readings: list[Reading], *, causal: bool) -> dict[str, np.ndarray]:
    """Put the sentences into arrays of the longest."""
    longest = max(len(reading.tokens) for reading in readings)
    read_as = [gates.read_gates(reading.weights, causal=causal) for reading in readings]

    def stack(tensors, dtype):
        blank = [torch.zeros(*t.shape[:2], *(longest for _ in t.shape[2:]), dtype=torch.float64) for t in tensors]
        for target, tensor in zip(blank, tensors, strict=True):
            target[tuple(slice(size) for size in tensor.shape)] = tensor.cpu().double()
        return torch.stack(blank).numpy().astype(dtype)

    entropy = [row_entropy(r.weights).mean(-1) / most(len(r.tokens), causal=causal) for r in readings]
    distances = torch.stack([reading.distances for reading in readings]).mean(0)
    return {
        "weights": stack([(255 * r.weights.sqrt()).round() for r in readings], np.uint8),
        "gates": stack([reading.cells + 1 for reading in read_as], np.uint8),
        "lengths": stack([reading.lengths for reading in readings], np.float32),
        "shares": torch.stack([reading.scores for reading in read_as]).mean(0).cpu().numpy().astype(np.float32),
        "content": torch.stack([r.content for r in readings]).mean(0).cpu().numpy().astype(np.float32),
        "entropy": torch.stack(entropy).mean(0).cpu().numpy().astype(np.float32),
        "nearest": distances.argmin(-1).cpu().numpy().astype(np.uint8),
        "distance": distances.amin(-1).cpu().numpy().astype(np.float32),
    }


def most(n: int, *, causal: bool) -> float:
    """Return the largest mean entropy of a map's rows, in nats.

    >>> most(2, causal=True) == most(2, causal=False) / 2
    True
    """
    return float(np.log(np.arange(1, n + 1)).mean() if causal else np.log(n))


@torch.no_grad()
def effects(model: torch.nn.Module, tokenizer) -> np.ndarray:
    """Silence one head at a time, ``(layer, head)``: what is lost, mean over the sentences.

    For a language model the rise of its loss, in nats per token; for an encoder ``1 - cos`` of the mean last state.
    """
    inputs = [tokenizer(text, return_tensors="pt").to(model.device) for text in SENTENCES]
    language = hasattr(model, "lm_head")

    def result():
        if language:
            return torch.stack([model(**i, labels=i["input_ids"]).loss for i in inputs])
        return torch.stack([model(**i).last_hidden_state.mean(1)[0] for i in inputs])

    whole, lost = result(), []
    for matrix, heads in output_matrices(model):
        for rows in matrix.chunk(heads):
            saved = rows.clone()
            rows.zero_()
            now = result()
            rows.copy_(saved)
            apart = now - whole if language else 1 - torch.nn.functional.cosine_similarity(now, whole, dim=-1)
            lost.append(float(apart.mean()))
    return np.array(lost, dtype=np.float32).reshape(-1, heads)


def output_matrices(model: torch.nn.Module) -> list[tuple[Float[Tensor, "head*channel model"], int]]:
    """Return each layer's ``W_O`` as the model multiplies with it, heads stacked by rows, and the number of heads."""
    if hasattr(model, "lm_head"):
        return [(block.attn.c_proj.weight.data, model.config.n_head) for block in model.transformer.h]
    return [
        (layer.attention.output.dense.weight.data.T, model.config.num_attention_heads) for layer in model.encoder.layer
    ]


EXPERIMENT = Experiment(compute, models=tuple(MODELS), minutes=0.3, seed=0)
