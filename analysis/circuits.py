r"""Circuits of an attention-only transformer: products of its matrices that say what one head asks of another.

The model has embeddings, attention layers that add to the stream, and an unembedding; no LayerNorm, no feed-forward.
Then a score between two things in the stream is a product of matrices, and a trained head can be drawn in the same
bases as one built by hand: positions against positions for ``A_1``, tokens against stored tokens for ``A_2``. What
belongs here: these products and the scores of heads on sequences. What does not: how the model was trained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.attention import attend, mask_future, project, softmax
from analysis.axes import Attention, AttentionWeights
from analysis.induction import copying, prefix_matching


@dataclass(frozen=True)
class AttentionOnly:
    """A model of embeddings ``W_E``, learned positions ``W_P``, attention layers, and the unembedding ``W_U``."""

    W_E: Float[Tensor, "vocab model"]
    W_P: Float[Tensor, "position model"]
    layers: Sequence[AttentionWeights]
    W_U: Float[Tensor, "model vocab"]


@dataclass(frozen=True)
class Ran:
    """What a run kept: what each layer read, its attention, and the logits."""

    streams: tuple[Float[Tensor, "batch position model"], ...]
    attention: tuple[Attention, ...]
    logits: Float[Tensor, "batch position vocab"]


def run(model: AttentionOnly, tokens: Int[Tensor, "batch position"]) -> Ran:
    """Run the model: ``logits = (x_0 + sum of all heads' updates) W_U``.

    Raises
    ------
    ValueError
        If a sequence is longer than the learned positions.
    """
    length = tokens.shape[1]
    if length > len(model.W_P):
        raise ValueError(f"tokens are {length} long, the model has {len(model.W_P)} positions")
    x = model.W_E[tokens] + model.W_P[:length]
    streams, attention = [], []
    for layer in model.layers:
        did = attend(x, layer, causal=True)
        streams.append(x)
        attention.append(did.attention)
        x = x + did.output
    return Ran(tuple(streams), tuple(attention), x @ model.W_U)


@dataclass(frozen=True)
class HeadScores:
    """Three scores of every head, each a mean over sequences, between 0 and 1.

    Attributes
    ----------
    previous
        Attention to the position just before.
    prefix
        Prefix matching: attention, at tokens seen before, to what followed them.
    copying
        Share of the raised logits that is on the token attended to.
    """

    previous: Float[Tensor, "layer head"]
    prefix: Float[Tensor, "layer head"]
    copying: Float[Tensor, "layer head"]


def score_heads(model: AttentionOnly, tokens: Int[Tensor, "batch position"]) -> HeadScores:
    """Return how much each head looks back one step, matches prefixes, and copies, on given sequences."""
    ran = run(model, tokens)
    previous = [a.diagonal(-1, -2, -1).mean((0, 2)) for a in ran.attention]
    prefix = [prefix_matching(a, tokens).mean(0) for a in ran.attention]
    copied = []
    for x, a, layer in zip(ran.streams, ran.attention, model.layers, strict=True):
        raised = einsum(x, layer.W_V, layer.W_O, model.W_U,
                        "batch key model, head model channel, head channel out, out vocab -> batch head key vocab")
        copied.append(copying(a, raised, tokens).mean(0))
    return HeadScores(torch.stack(previous), torch.stack(prefix), torch.stack(copied))


def position_scores(model: AttentionOnly, layer: int = 0) -> Float[Tensor, "head query key"]:
    r"""Return what positions alone contribute to a layer's scores: ``W_P W_Q W_K^T W_P^T / sqrt(channel)``.

    The learned counterpart of ``A_1``'s lower-right block; rows matter up to a constant.
    """
    weights = model.layers[layer]
    scores = einsum(model.W_P, weights.W_Q, weights.W_K, model.W_P,
                    "query q, head q channel, head k channel, key k -> head query key")
    return scores / math.sqrt(weights.channel)


def match_scores(model: AttentionOnly, share: Float[Tensor, " head"]) -> Float[Tensor, "head token stored"]:
    r"""Return how well a token matches a stored token in each head of layer 1: the counterpart of ``A_2``'s block.

    .. math::  W_E W_Q \Big( \sum_h s_h W_E W_V^h W_O^h \; W_K \Big)^\top / \sqrt{channel}

    Parameters
    ----------
    share
        ``s_h``: how much each head of layer 0 attends to the previous position, so that the sum is what the first
        layer stores, on average, of the previous token.
    """
    first, second = model.layers[0], model.layers[1]
    stored = einsum(model.W_E, first.W_V, first.W_O, share,
                    "stored model, head model channel, head channel out, head -> stored out")
    scores = einsum(model.W_E, second.W_Q, second.W_K, stored,
                    "token q, head q channel, head k channel, stored k -> head token stored")
    return scores / math.sqrt(second.channel)


def copy_scores(model: AttentionOnly, layer: int = 1) -> Float[Tensor, "head source raised"]:
    """Return which logits a head raises per token it attends to: ``W_E W_V W_O W_U``, the counterpart of ``V_2``."""
    weights = model.layers[layer]
    return einsum(model.W_E, weights.W_V, weights.W_O, model.W_U,
                  "source model, head model channel, head channel out, out raised -> head source raised")


def attention_reading(model: AttentionOnly, ran: Ran, *, queries: int, keys: int, layer: int = 1) -> Attention:
    """Return a layer's attention if its queries and keys read the stream as it was before the given layers.

    ``queries=1, keys=1`` is what layer 1 does; ``keys=0`` hides from its keys all that layer 0 wrote, and leaves the
    queries as they are: what breaks then was composed through the keys.
    """
    weights = model.layers[layer]
    asked = project(ran.streams[queries], weights.W_Q, weights.b_Q)
    offered = project(ran.streams[keys], weights.W_K, weights.b_K)
    scores = einsum(asked, offered, "batch head query channel, batch head key channel -> batch head query key")
    return softmax(mask_future(scores / math.sqrt(weights.channel)))


def found_on(scores: Float[Tensor, "*any query key"], offset: int = 0, *,
             causal: bool = False) -> Float[Tensor, "*any"]:
    """Return the share of rows whose largest score lies ``offset`` to the left of the diagonal.

    With ``causal``, only keys up to the query count and rows that have none there are left out.

    >>> found_on(torch.tensor([[0.0, 9.0], [1.0, 0.0]]), offset=1, causal=True)
    tensor(1.)
    """
    size = scores.shape[-1]
    if causal:
        scores = scores.masked_fill(torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1), -math.inf)
    due = torch.arange(size, device=scores.device) - offset
    return (scores.argmax(-1) == due)[..., offset:].float().mean(-1)
