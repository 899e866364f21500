r"""The score as one product of matrices with a border: its four parts are the four blocks.

``s = [x 1] [W_Q; b_Q] [W_K; b_K]^T [x 1]^T / sqrt(channel)``. What belongs here: the bordered matrix, its blocks, what
moving the origin of the inputs does to them. What does not: patterns and semi-bias one by one
(:mod:`analysis.decomposition.qk_ov`, :mod:`analysis.decomposition.score_terms`), how much of the attention each part
explains (:mod:`analysis.maps.attribution`).
"""

import math
from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Residual
from analysis.core.checks import check_fit, check_floating, check_real, check_tensor
from analysis.core.precision import without_autocast
from analysis.core.weights import AttentionWeights
from analysis.transformer.attention import check_input, project

PARTS = ("content", "common", "semi_bias", "query_side", "constant")
"""The order of :func:`score_parts`; the last two are constant along a row."""

Bordered = Float[Tensor, "head row column"]


@dataclass(frozen=True)
class Blocks:
    """The four blocks of the bordered matrix, already divided by ``sqrt(channel)``."""

    content: Float[Tensor, "head model other"]
    semi_bias: Float[Tensor, "head model"]
    query_side: Float[Tensor, "head model"]
    constant: Float[Tensor, " head"]


def homogeneous(x: Residual) -> Float[Tensor, "*batch position extended"]:
    """Append a coordinate that is 1 to every row.

    >>> homogeneous(torch.tensor([[5.0, 6.0]]))
    tensor([[5., 6., 1.]])
    """
    check_floating("x", x, "position", "model")
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def bordered(weights: AttentionWeights) -> Bordered:
    r"""Multiply the bordered factors of each head: one matrix that holds all four parts of a score.

    .. math::

        B = \frac{1}{\sqrt c} \begin{pmatrix} W_Q \\ b_Q \end{pmatrix} \begin{pmatrix} W_K \\ b_K \end{pmatrix}^\top
          = \frac{1}{\sqrt c} \begin{pmatrix} W_Q W_K^\top & W_Q b_K^\top \\ b_Q W_K^\top & b_Q b_K^\top \end{pmatrix},
        \qquad S = [x\;1]\, B\, [x\;1]^\top

    Its rank is at most ``channel``. Scores do not notice the last column once they have passed the softmax.

    References
    ----------
    Ledger K-12 to K-16, P-13, B-12 (equation 3.4), I-04.

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> bordered(AttentionWeights(2 * one, 3 * one, one, one, zero + 5, zero + 7, zero,
    ...                           torch.zeros(1)))
    tensor([[[ 6., 14.],
             [15., 35.]]])
    """
    factors = [torch.cat([W, b[:, None]], 1) for W, b in ((weights.W_Q, weights.b_Q), (weights.W_K, weights.b_K))]
    product = einsum(*factors, "head row channel, head column channel -> head row column")
    return product / math.sqrt(weights.channel)


def split_blocks(matrix: Bordered) -> Blocks:
    """Cut a bordered matrix into its four blocks.

    >>> split_blocks(torch.tensor([[[6.0, 14.0], [15.0, 35.0]]])).semi_bias
    tensor([[15.]])
    """
    check_tensor("matrix", matrix)
    if matrix.ndim != 3 or matrix.shape[1] != matrix.shape[2] or matrix.shape[1] < 2:
        raise ValueError(f"matrix must be (head, model + 1, model + 1), got {tuple(matrix.shape)}")
    return Blocks(matrix[:, :-1, :-1], matrix[:, -1, :-1], matrix[:, :-1, -1], matrix[:, -1, -1])


@without_autocast
def move_origin(weights: AttentionWeights, origin: Float[Tensor, " model"]) -> AttentionWeights:
    r"""Return the layer that reads ``x - origin`` as this one reads ``x``: ``b`` becomes ``b + origin W``.

    .. math::  [x\;1] = [x - o\;\;1] \begin{pmatrix} I & 0 \\ o & 1 \end{pmatrix}

    The content block stays; what the origin contributes, ``o W_Q W_K^T``, moves into the semi-bias. So how much of a
    score is content and how much is semi-bias depends on where the inputs are counted from.

    Raises
    ------
    ValueError
        If the origin has another width or dtype than the layer.

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> move_origin(AttentionWeights(one, one, one, one, zero, zero, zero,
    ...                              torch.zeros(1)), torch.tensor([4.0])).b_Q
    tensor([[4.]])
    """
    check_fit("origin", origin, (weights.model,), "the layer", weights.W_Q)
    check_real("origin", origin)
    biases = {
        f"b_{n}": getattr(weights, f"b_{n}")
        + einsum(origin, getattr(weights, f"W_{n}"), "model, head model channel -> head channel")
        for n in "QKV"
    }
    return replace(weights, **biases)


@without_autocast
def score_parts(
    x: Residual,
    weights: AttentionWeights,
    origin: Float[Tensor, " model"] | None = None,
    *,
    queries: Float[Tensor, "*batch query model"] | None = None,
) -> Float[Tensor, "part ..."]:
    r"""Return the parts of the scores in the order of :data:`PARTS`; they sum to ``attention.compute_scores``.

    Of shape ``(part, ..., head, query, key)``.

    .. math::

        s_{ij} \sqrt c = \underbrace{(x_i - o) W_Q W_K^\top x_j^\top}_{\text{content}}
        + \underbrace{o\, W_Q W_K^\top x_j^\top}_{\text{common}} + \underbrace{b_Q W_K^\top x_j^\top}_{\text{semi-bias}}
        + x_i W_Q b_K^\top + b_Q b_K^\top

    Parameters
    ----------
    origin
        ``o``, such as the mean of what a layer reads: what all queries have in common then stands apart. Default 0.
    queries
        The rows that the queries are made of, where they are not all of ``x``.

    Raises
    ------
    ValueError
        If the shapes or dtypes of ``x``, ``origin``, ``queries`` and the layer do not fit.

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionWeights(one, one, one, one, zero + 3, zero, zero,
    ...                          torch.zeros(1))
    >>> score_parts(torch.tensor([[2.0]]), layer, origin=torch.tensor([0.5])).flatten()
    tensor([3., 1., 6., 0., 0.])
    """
    queries = x if queries is None else queries
    for name, rows in (("x", x), ("queries", queries)):
        check_input(rows, weights, name)
    origin = torch.zeros(weights.model).to(weights.W_Q) if origin is None else origin
    b_Q = move_origin(weights, origin).b_Q
    none, root = torch.zeros_like(weights.b_Q), math.sqrt(weights.channel)
    keys = project(x, weights.W_K, none) / root
    about_origin = project(queries - origin, weights.W_Q, none)
    content = einsum(about_origin, keys, "... head query channel, ... head key channel -> ... head query key")
    common, semi = (
        einsum(b, keys, "head channel, ... head key channel -> ... head key")[..., None, :]
        for b in (b_Q - weights.b_Q, weights.b_Q)
    )
    side = (
        einsum(
            project(queries, weights.W_Q, none), weights.b_K, "... head query channel, head channel -> ... head query"
        )[..., None]
        / root
    )
    constant = (einsum(weights.b_Q, weights.b_K, "head channel, head channel -> head") / root)[:, None, None]
    return torch.stack([part.expand(content.shape) for part in (content, common, semi, side, constant)])
