r"""Circuits of an attention-only transformer: products of its matrices that say what one head reads from another.

The model has embeddings, attention layers that add to the stream, and an unembedding; no LayerNorm, no feed-forward.
Then a score between two things in the stream is a product of matrices, and a trained head can be drawn in the same
bases as one built by hand: positions against positions for ``A_1``, tokens against stored tokens for ``A_2``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention
from analysis.core.checks import check_fit, check_vocabulary
from analysis.core.precision import without_autocast
from analysis.core.signatures import checked
from analysis.transformer.attention import attend, mask_future, project, softmax
from analysis.transformer.induction_scores import copying_score, induction_score, previous_token_score


@dataclass(frozen=True)
class AttentionOnly:
    """A model of embeddings ``W_E``, learned positions ``W_P``, attention layers, and the unembedding ``W_U``."""

    W_E: Float[Tensor, "vocab model"]
    W_P: Float[Tensor, "position model"]
    layers: Sequence[AttentionLayer]
    W_U: Float[Tensor, "model vocab"]

    def __post_init__(self):
        vocab, model = self.W_E.shape
        if self.W_P.ndim != 2 or self.W_P.shape[1] != model:
            raise ValueError(f"W_P must be (position, {model}) to fit W_E, got {tuple(self.W_P.shape)}")
        if tuple(self.W_U.shape) != (model, vocab):
            raise ValueError(f"W_U must be ({model}, {vocab}) to fit W_E, got {tuple(self.W_U.shape)}")
        widths = [layer.model for layer in self.layers]
        if set(widths) - {model}:
            raise ValueError(f"layers must have the width {model} of W_E, got {widths}")
        if not all(layer.mask.causal for layer in self.layers):
            raise ValueError("layers must be causal, got one whose queries see later keys: its mask says so")

    def layer(self, number: int) -> AttentionLayer:
        """Return one layer; raise for a number that the model does not have."""
        if not 0 <= number < len(self.layers):
            raise ValueError(f"layer must lie in 0..{len(self.layers) - 1}, the layers of the model, got {number}")
        return self.layers[number]


@dataclass(frozen=True)
class AttentionOnlyRun:
    """What a run kept: what each layer read, its attention, and the logits."""

    streams: tuple[Float[Tensor, "batch position model"], ...]
    attention: tuple[Attention, ...]
    logits: Float[Tensor, "batch position vocab"]


@checked
def run(model: AttentionOnly, tokens: Int[Tensor, "batch position"]) -> AttentionOnlyRun:
    """Run the model: ``logits = (x_0 + sum of all heads' updates) W_U``.

    Raises
    ------
    ValueError
        If a sequence is longer than the learned positions, or a token is not in the vocabulary.
    """
    length = tokens.shape[1]
    check_vocabulary("tokens", tokens, len(model.W_E))
    if length > len(model.W_P):
        raise ValueError(f"tokens are {length} long, the model has {len(model.W_P)} positions")
    x = model.W_E[tokens.long()] + model.W_P[:length]
    streams, attention = [], []
    for layer in model.layers:
        update = attend(x, layer)
        streams.append(x)
        attention.append(update.attention)
        x = x + update.output
    return AttentionOnlyRun(tuple(streams), tuple(attention), x @ model.W_U)


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


@without_autocast
def score_heads(model: AttentionOnly, tokens: Int[Tensor, "batch position"]) -> HeadScores:
    """Return how much each head looks back one step, matches prefixes, and copies, on given sequences."""
    activations = run(model, tokens)
    previous = [previous_token_score(a).mean(0) for a in activations.attention]
    prefix = [induction_score(a, tokens).mean(0) for a in activations.attention]
    copies = []
    for x, a, layer in zip(activations.streams, activations.attention, model.layers, strict=True):
        product = "batch key model, head model channel, head channel out, out vocab -> batch head key vocab"
        logits = einsum(x, layer.W_V, layer.W_O, model.W_U, product)
        copies.append(copying_score(a, logits, tokens).mean(0))
    return HeadScores(torch.stack(previous), torch.stack(prefix), torch.stack(copies))


def positional_qk_circuit(model: AttentionOnly, layer: int = 0) -> Float[Tensor, "head query key"]:
    r"""Return what positions alone contribute to a layer's scores: ``W_P W_Q W_K^T W_P^T / sqrt(channel)``.

    The learned counterpart of ``A_1``'s lower-right block; rows matter up to a constant.
    """
    weights = model.layer(layer)
    product = "query q, head q channel, head k channel, key k -> head query key"
    return einsum(model.W_P, weights.W_Q, weights.W_K, model.W_P, product) / math.sqrt(weights.channel)


@without_autocast
def k_composition(model: AttentionOnly, share: Float[Tensor, " head"]) -> Float[Tensor, "head token stored"]:
    r"""Return how well a token matches a stored token in each head of layer 1: the counterpart of ``A_2``'s block.

    .. math::  W_E W_Q \Big( \sum_h s_h W_E W_V^h W_O^h \; W_K \Big)^\top / \sqrt{channel}

    Parameters
    ----------
    share
        ``s_h``: how much each head of layer 0 attends to the previous position, so that the sum is what the first
        layer stores, on average, of the previous token.
    """
    first, second = model.layer(0), model.layer(1)
    check_fit("share", share, (first.heads,), "the heads of layer 0", model.W_E)
    memory = einsum(
        model.W_E, first.W_V, first.W_O, share, "stored model, head model channel, head channel out, head -> stored out"
    )
    product = "token q, head q channel, head k channel, stored k -> head token stored"
    return einsum(model.W_E, second.W_Q, second.W_K, memory, product) / math.sqrt(second.channel)


def full_ov_circuit(model: AttentionOnly, layer: int = 1) -> Float[Tensor, "head source raised"]:
    """Return which logits a head raises per token it attends to: ``W_E W_V W_O W_U``, the counterpart of ``V_2``."""
    weights = model.layer(layer)
    product = "source model, head model channel, head channel out, out raised -> head source raised"
    return einsum(model.W_E, weights.W_V, weights.W_O, model.W_U, product)


def attention_reading(
    model: AttentionOnly, activations: AttentionOnlyRun, *, queries: int, keys: int, layer: int = 1
) -> Attention:
    """Return a layer's attention if its queries and keys read the stream as it was before the given layers.

    ``queries=1, keys=1`` is what layer 1 does; ``keys=0`` hides from its keys all that layer 0 wrote, and leaves the
    queries as they are: what breaks then was composed through the keys.
    """
    for name, number in (("queries", queries), ("keys", keys)):
        if not 0 <= number < len(activations.streams):
            raise ValueError(
                f"{name} must lie in 0..{len(activations.streams) - 1}, the layers of the run, got {number}"
            )
    weights = model.layer(layer)
    query_rows = project(activations.streams[queries], weights.W_Q, weights.b_Q)
    key_rows = project(activations.streams[keys], weights.W_K, weights.b_K)
    scores = einsum(query_rows, key_rows, "batch head query channel, batch head key channel -> batch head query key")
    return softmax(mask_future(scores / math.sqrt(weights.channel)))


@checked
def top_1_accuracy(
    scores: Float[Tensor, "*any position position"], offset: int = 0, *, causal: bool = False
) -> Float[Tensor, "*any"]:
    r"""Return the share of rows whose largest score lies ``offset`` to the left of the diagonal.

    .. math::  \frac{1}{n - o} \sum_{i \ge o} [\operatorname{argmax}_j s_{ij} = i - o]

    With an offset of 1 the criterion of Voita et al. (2019) for a positional head. With ``causal``, only keys up to the
    query count. Rows that have no key there are left out; of equal scores the first counts as the largest.

    Raises
    ------
    ValueError
        If the scores are not square or hold nan, or ``offset`` is negative or leaves no row.

    Examples
    --------
    >>> top_1_accuracy(torch.tensor([[0.0, 9.0], [1.0, 0.0]]), offset=1, causal=True)
    tensor(1.)
    """
    size = scores.shape[-1]
    if not 0 <= offset < size:
        raise ValueError(f"offset must lie in 0..{size - 1} for {size} rows, got {offset}")
    if scores.isnan().any():
        raise ValueError("scores hold nan: no entry of such a row is the largest")
    if causal:
        scores = scores.masked_fill(torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1), -math.inf)
    target = torch.arange(size, device=scores.device) - offset
    return (scores.argmax(-1) == target)[..., offset:].float().mean(-1)


@checked(finite=True)
def composition_scores(
    W_O: Float[Tensor, "head channel model"], W: Float[Tensor, "later model read"]
) -> Float[Tensor, "head later"]:
    r"""Return how much what each head writes overlaps with what each later head reads.

    .. math::  \frac{\lVert W_O^{(i)} W^{(j)} \rVert_F}{\lVert W_O^{(i)} \rVert_F\,\lVert W^{(j)} \rVert_F}

    The composition score of "A Mathematical Framework for Transformer Circuits", with the output matrices themselves
    in place of the products with the values ("The geometry of BERT", 5.3.5). It lies between 0 and 1.

    Parameters
    ----------
    W_O
        The output matrices of one layer.
    W
        What the heads of a later layer read with: ``W_Q``, ``W_K`` or ``W_V``.

    Examples
    --------
    >>> composition_scores(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]),
    ...                    torch.tensor([[[2.0], [0.0]]]))
    tensor([[1.],
            [0.]])
    """
    products = einsum(W_O, W, "head channel model, later model read -> head later channel read")
    sizes = [part.flatten(-2).norm(dim=-1, dtype=torch.float64) for part in (products, W_O, W)]  # squares may vanish
    return (sizes[0] / torch.outer(*sizes[1:])).to(products.dtype)
