"""What the chapter on patterns and messages reads off a whole GPT-2 as it reads text."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.data import texts
from analysis.decomposition import qk_ov
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import attention_inputs
from analysis.models.reading import load
from analysis.transformer.attention import mask_future, softmax

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
