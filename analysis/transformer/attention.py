r"""Reference multi-head attention: the plain formulas that every rewriting in the book is held to.

Causal or bidirectional, on any number of leading batch axes. What belongs here: queries, keys, values, scores,
softmax, the sum over heads. What does not: taking scores apart (:mod:`analysis.decomposition`), reading models
(:mod:`analysis.models`).
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Attention, Projected, Residual, Scores
from analysis.core.checks import check_tensor
from analysis.core.signatures import checked
from analysis.core.weights import AttentionWeights


@checked
def project(x: Residual, W: Float[Tensor, "head model channel"], b: Float[Tensor, "head channel"]) -> Projected:
    """Return ``x W + b`` for each head: the queries, keys or values of a layer.

    >>> x = torch.tensor([[1.0, 2.0]])
    >>> project(x, torch.eye(2)[None], torch.tensor([[10.0, 0.0]]))
    tensor([[[11.,  2.]]])
    """
    return einsum(x, W, "... position model, head model channel -> ... head position channel") + b[:, None]


@checked
def mask_future(scores: Float[Tensor, "*any query key"]) -> Float[Tensor, "*any query key"]:
    """Put minus infinity where ``key > query``; queries are the last of the keys where there are fewer.

    >>> mask_future(torch.zeros(1, 2, 2))
    tensor([[[0., -inf],
             [0., 0.]]])
    """
    if scores.shape[-2] > scores.shape[-1]:
        raise ValueError(f"scores must be (..., query, key) with no more queries than keys, got {tuple(scores.shape)}")
    queries, keys = scores.shape[-2:]
    future = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(keys - queries + 1)
    return scores.masked_fill(future, -math.inf)


@checked
def compute_scores(x: Residual, weights: AttentionWeights, *, causal: bool = False) -> Scores:
    """Return ``(x W_Q + b_Q)(x W_K + b_K)^T / sqrt(channel)`` for each head, the future masked if ``causal``."""
    queries = project(x, weights.W_Q, weights.b_Q)
    keys = project(x, weights.W_K, weights.b_K)
    scores = einsum(queries, keys, "... head query channel, ... head key channel -> ... head query key")
    scores = scores / math.sqrt(weights.channel)
    return mask_future(scores) if causal else scores


@checked
def softmax(scores: Float[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Turn scores into attention: each row exponentiated and divided by its sum.

    >>> softmax(torch.zeros(1, 1, 4))
    tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    return scores.softmax(-1)


@dataclass(frozen=True)
class Attended:
    """What a layer computed: its scores, its attention, each head's update, and their sum plus ``b_O``."""

    scores: Scores
    attention: Attention
    updates: Float[Tensor, "*batch head query model"]
    output: Float[Tensor, "*batch query model"]


@checked
def attend(x: Residual, weights: AttentionWeights, *, causal: bool = False) -> Attended:
    r"""Run one attention layer and keep what it computed on the way.

    .. math::  y_i = \sum_h \sum_j \alpha_{hij}\, v_h(x_j)\, W^O_h + b^O

    Parameters
    ----------
    x
        What the layer reads; for a pre-LN model that is the normalised stream.
    weights
        The layer.
    causal
        Whether a query may attend to later keys (``False``, BERT) or not (``True``, GPT-2).

    Returns
    -------
    Attended
        ``updates`` are the heads' parts of the output, before ``b_O``.

    Raises
    ------
    ValueError
        If ``x`` has another width or dtype than the weights, or no position.

    Notes
    -----
    Ledger K-05, K-06, P-01, P-04: concatenating heads and multiplying by ``W_O`` is this sum over heads.

    Examples
    --------
    One head that cannot tell keys apart (``W_Q = 0``) returns running means:

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2, 2)
    >>> layer = AttentionWeights(zero, zero, eye, eye, *torch.zeros(3, 1, 2),
    ...                          torch.zeros(2))
    >>> attend(torch.tensor([[0.0, 4.0], [2.0, 0.0]]), layer, causal=True).output
    tensor([[0., 4.],
            [1., 2.]])
    """
    scores = compute_scores(x, weights, causal=causal)
    attention = softmax(scores)
    values = project(x, weights.W_V, weights.b_V)
    heads = einsum(attention, values, "... head query key, ... head key channel -> ... head query channel")
    updates = einsum(heads, weights.W_O, "... head query channel, head channel model -> ... head query model")
    return Attended(scores, attention, updates, updates.sum(-3) + weights.b_O)


def check_input(x: Tensor, weights: AttentionWeights, name: str = "x") -> None:
    """Refuse an input that does not fit the layer, before anything is computed; ``name`` is the caller's for it."""
    check_tensor(name, x)
    if x.ndim < 2 or x.shape[-1] != weights.model:
        raise ValueError(f"{name} must be (..., position, {weights.model}) to fit the weights, got {tuple(x.shape)}")
    if x.shape[-2] == 0:
        raise ValueError(f"{name} has no positions: attention over an empty sequence is not defined")
    here, there = (f"{tensor.dtype} on {tensor.device}" for tensor in (x, weights.W_Q))
    if here != there:
        raise ValueError(f"{name} is {here} but the weights are {there}: convert one of them")
