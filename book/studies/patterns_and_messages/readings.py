"""Patterns and messages read as tokens, on texts, and held to the printed lists."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.data import texts
from analysis.decomposition import qk_ov
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import attention_inputs
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, mask_future, project, softmax
from book.lab.reference_modules import attention_module
from book.publish import Inputs, Numbers
from book.studies.shared.equality import draw, relative_gap

# ---- What the chapter on patterns and messages reads off a whole GPT-2 as it reads text

SEEN = 8  # rows that see fewer keys are left out


def layers(
    checkpoint: Checkpoint,
    *,
    control_seed: int | None = None,
    passages: int = 8,
    tokens: int = 64,
    source: str | None = None,
    device: torch.device | str = "cpu",
) -> Iterator[list[tuple[AttentionLayer, Float[Tensor, "position model"]]]]:
    """Run a GPT-2 on passages; yield, for each, every layer's weights with what it reads, in float64.

    ``source`` is a text file or a folder of them to read in place of the bundled passages.
    """
    model = pretrained.load(checkpoint, control_seed=control_seed, dtype=torch.float64, device=device)
    tokenizer, layer_weights = pretrained.tokenizer(checkpoint), load(model).plain_layers()
    for text in texts.passages(count=passages, source=source):
        ids = torch.tensor([tokenizer(text, truncation=True, max_length=tokens)["input_ids"]], device=device)
        states = model(ids, output_hidden_states=True).hidden_states
        yield [(w, h[0]) for w, h in zip(layer_weights, attention_inputs(model, states), strict=True)]


def parts(x: Float[Tensor, "position model"], weights: AttentionLayer) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores from the varying part of each pattern, the common part and the raw semi-bias, less row means.

    Row means are over visible keys. The last two are constant over queries: the common part comes from the mean of
    the inputs over the sequence, the raw semi-bias from the query bias.
    """
    whole, query_bias = qk_ov.patterns(x, weights), qk_ov.constant_pattern(weights)[:, None]
    constant = whole.mean(-2, keepdim=True)
    each = (
        qk_ov.match(part.expand_as(whole), x, weights.channel)
        for part in (whole - constant, constant - query_bias, query_bias)
    )
    visible = x.new_ones(len(x), len(x)).tril()
    return tuple((s - (s * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)) * visible for s in each)


def readings(checkpoint: Checkpoint, **which) -> dict[str, Float[Tensor, "layer head"]]:
    """Return, for each layer and head, means over rows that see at least eight keys.

    ``angle``
        How often the key most similar to the pattern by angle is the one with the largest score.
    ``influence``
        How often the key with the largest weight is the one whose weighted message is longest.
    ``constant``
        The share of common part and semi-bias together in the variance of scores over visible keys: their covariance
        with the scores over the variance. Shares add up to 1.
    ``query bias``
        The raw semi-bias's share in it.
    """
    sums = []
    for passage in layers(checkpoint, **which):
        sums.append([_read(x, w) for w, x in passage])
    return {
        name: torch.stack([torch.stack([layer[name] for layer in passage]) for passage in sums]).mean(0)
        for name in sums[0][0]
    }


def _read(x, w) -> dict[str, Tensor]:
    P = qk_ov.patterns(x, w)
    scores = qk_ov.match(P, x, w.channel, causal=True)
    unit = x / x.norm(dim=-1, keepdim=True)
    angles = mask_future(qk_ov.match(P / P.norm(dim=-1, keepdim=True), unit, 1))
    attention = softmax(scores)
    lengths = attention * qk_ov.messages(x, w).norm(dim=-1)[:, None]
    each = [part[:, SEEN:] for part in parts(x, w)]
    varying, _, query_bias = ((part * sum(each)).sum((-2, -1)) / sum(each).square().sum((-2, -1)) for part in each)
    return {
        "angle": _same(angles, scores),
        "influence": _same(lengths, attention),
        "constant": 1 - varying,
        "query bias": query_bias,
    }


def _same(one: Tensor, other: Tensor) -> Tensor:
    return (one.argmax(-1) == other.argmax(-1))[:, SEEN:].double().mean(-1)


# ---- Patterns of a whole model as it reads text: what its parts and angles tell, and in which space they can be read


@dataclass(frozen=True)
class Example:
    """Scores of the head whose two parts are most nearly of one size, on one text: ``(query, key)``, in nats."""

    layer: int
    head: int
    varying: np.ndarray
    constant: np.ndarray


@dataclass(frozen=True)
class Spaces(Numbers):
    """How often the key nearest by angle is the key with the largest score, over all heads and rows of a model.

    To a pattern in the space of the stream; to a query in its head's own space; and there once more after a random
    change of the factors, which leaves the layer as it is.
    """

    nearest_to_pattern: float
    nearest_to_query: float
    nearest_to_turned_query: float


@dataclass(frozen=True)
class Readings(Numbers):
    """What ``readings.readings`` says of each head of a whole model on text, ``(layer, head)``, beside its control.

    The numbers on the constant part are its share of the variance of scores and, of that, the query bias's.
    """

    model: str
    constant_range: str
    constant_control: str
    query_bias_range: str
    influence: str
    influence_control: str
    trained: Mapping[str, np.ndarray]
    control: Mapping[str, np.ndarray]
    example: Example


def measure_readings(inputs: Inputs) -> Readings:
    """Read the patterns of a whole model on text, and of its control."""
    checkpoint = checkpoints.find(inputs.model)
    which = {"source": inputs.texts, "device": inputs.device}
    trained, control = (
        {name: values.cpu().numpy() for name, values in readings(checkpoint, control_seed=seed, **which).items()}
        for seed in (None, 0)
    )
    constant, influence = trained["constant"], trained["influence"]
    layer, head = divmod(int(np.abs(constant - 0.5).argmin()), constant.shape[1])
    weights, rows = next(layers(checkpoint, **which))[layer]
    varying, common, semi_bias = (part[head].cpu().numpy() for part in parts(rows, weights))
    return Readings(
        model=Path(inputs.model).name,
        constant_range=f"{constant.min():.0%} to {constant.max():.0%}",
        constant_control=f"{control['constant'].max():.0%}",
        query_bias_range=f"{100 * trained['query bias'].min():.0f} to {100 * trained['query bias'].max():.0f} %",
        influence=f"{influence.min():.0%} to {influence.max():.0%}",
        influence_control=f"{control['influence'].mean():.0%}",
        trained=trained,
        control=control,
        example=Example(layer, head, varying, common + semi_bias),
    )


def measure_spaces(inputs: Inputs) -> Spaces:
    """Ask in each space how often the key that is nearest by angle is the key with the largest score."""
    hits = {"pattern": [], "query": [], "query, other factors": []}
    for passage in layers(checkpoints.find(inputs.model), source=inputs.texts, device=inputs.device):
        for weights, x in passage:
            G = draw(weights.heads, weights.channel, weights.channel, seed=5, device=inputs.device)
            best = mask_future(compute_scores(x, weights)).argmax(-1)[:, SEEN:]
            nearest = {
                "pattern": nearest_rows(qk_ov.patterns(x, weights), x),
                "query": nearest_to_queries(x, weights),
                "query, other factors": nearest_to_queries(x, qk_ov.change_gauge(weights, G)),
            }
            for space, keys in nearest.items():
                hits[space].append((keys == best).flatten())
    return Spaces(*(torch.cat(hits[space]).double().mean().item() for space in hits))


def nearest_to_queries(x: Residual, weights: AttentionLayer) -> Tensor:
    """Return, ``(head, query)``, the key at the smallest angle to each query in the head's own space."""
    return nearest_rows(project(x, weights.W_Q, weights.b_Q), project(x, weights.W_K, weights.b_K))


def nearest_rows(rows: Tensor, keys: Tensor) -> Tensor:
    """Return which of the keys that it may see is at the smallest angle to each row; the first rows are left out."""
    unit_rows, unit_keys = (tensor / tensor.norm(dim=-1, keepdim=True) for tensor in (rows, keys))
    return mask_future(unit_rows @ unit_keys.mT).argmax(-1)[:, SEEN:]


# ---- The two lists of formulas that the post ends with, run line by line as they are printed

# The post's names, with root for the root of d_k; in the order in which the lines can be computed.
RESULT = "MultiHead"
FIRST_LIST = {
    "patterns": "X @ W_P",
    "messages": "X @ W_M",
    "scores": "softmax(P @ X.mT / root)",
    RESULT: "(scores @ messages).sum(1)",
}
SECOND_LIST = {"P": "X @ W_P", "M": "X @ W_M", "scores": "softmax(P @ X.mT / root)", RESULT: "(scores @ M).sum(1)"}


@dataclass(frozen=True)
class PrintedLists:
    """What the first list leaves undefined and unused, and how far both are from ``BertSelfAttention``.

    ``stand_ins`` are the errors of the first list, as shares of the largest output, with one of the matrices that it
    does have in the place of the name that it does not define; ``second`` is that of the second list as printed.
    """

    undefined: tuple[str, ...]
    unused: tuple[str, ...]
    stand_ins: Mapping[str, float]
    second: float


def run_printed_lists(layer: AttentionLayer, x: Residual) -> PrintedLists:
    """Run both lists on a layer without biases; the first with each of its matrices for the name that it lacks."""
    names = {
        "X": x[:, None],
        "W_P": qk_ov.qk_matrix(layer),
        "W_M": qk_ov.ov_matrix(layer),
        "softmax": softmax,
        "root": layer.channel**0.5,
    }
    output = attention_module("bert", layer)(x)[0]
    used = {node.id for line in FIRST_LIST.values() for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    undefined = tuple(sorted(used - set(FIRST_LIST) - set(names)))
    unused = tuple(name for name in FIRST_LIST if name not in used | {RESULT})
    matrices = {name: FIRST_LIST[name] for name in ("patterns", "messages")}
    stand_ins = {
        name: run({**matrices, **dict.fromkeys(undefined, name), **FIRST_LIST}, names) for name in (*matrices, "X")
    }
    return PrintedLists(
        undefined,
        unused,
        {name: relative_gap(result, output) for name, result in stand_ins.items()},
        relative_gap(run(SECOND_LIST, names), output),
    )


def run(lines: Mapping[str, str], names: Mapping[str, object]) -> Tensor:
    """Compute a list line by line and return its result."""
    values = dict(names)
    for name, line in lines.items():
        values[name] = eval(line, {}, values)
    return values[RESULT]
