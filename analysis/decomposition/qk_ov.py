r"""Attention in model space: patterns (what a query looks for) and messages (what a key delivers).

``sum_h softmax(P_h x^T / sqrt(channel)) M_h + b`` with ``P_h = x W^P_h + c_h`` and ``M_h = x W^M_h``: McCormick,
*Refactoring the attention equations: patterns and messages* (2025), with biases and masks.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from einops import einsum
from jaxtyping import Complex, Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Residual, Scores
from analysis.core.positions import Rotary
from analysis.core.shapes import say_shapes
from analysis.core.signatures import checked
from analysis.decomposition.rotary_channels import rotation_of, split_channels
from analysis.decomposition.rotary_kernel import pair_channels, unpair_channels
from analysis.matrices.spectra import product_singular_values
from analysis.transformer.attention import Attended, hide_keys, mask_future, softmax
from analysis.transformer.positional_encodings import rotation

Patterns = Float[Tensor, "*batch head query model"]
Messages = Float[Tensor, "*batch head key model"]
PerHead = Float[Tensor, "head model other"]


@checked
def qk_matrix(weights: AttentionLayer) -> PerHead:
    """Merge ``W_Q W_K^T`` for each head: ``W^P (head, model, other)``, rank at most ``channel``.

    >>> up, right = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[1.0], [0.0]]])
    >>> nil = torch.zeros(1, 1)
    >>> qk_matrix(AttentionLayer(up, right, up, up.mT, nil, nil, nil, torch.zeros(2)))
    tensor([[[0., 0.],
             [1., 0.]]])
    """
    weights = weights.plain()
    return einsum(weights.W_Q, weights.W_K, "head model channel, head other channel -> head model other")


@checked
def ov_matrix(weights: AttentionLayer) -> PerHead:
    """Merge ``W_V W_O`` for each head: ``W^M (head, model, other)``, rank at most ``channel``."""
    W_V = weights.per_head(weights.W_V)
    return einsum(W_V, weights.W_O, "head model value, head value other -> head model other")


@dataclass(frozen=True)
class Circuit:
    """One product of each head, ``A B^T``: kept as its tall factors, since as a matrix it is large and of low rank.

    Attributes
    ----------
    A
        What the stream is multiplied with: ``(head, model, channel)``.
    B
        The other factor, ``(head, model, channel)``.
    """

    A: Float[Tensor, "head model channel"]
    B: Float[Tensor, "head other channel"]

    __repr__ = say_shapes

    @property
    def matrix(self) -> Float[Tensor, "head model other"]:
        """The products themselves."""
        return self.A @ self.B.mT

    @cached_property
    def S(self) -> Float[Tensor, "head channel"]:
        """The singular values, largest first, in float64; all others are 0."""
        return product_singular_values(self.A, self.B)

    @cached_property
    def eigenvalues(self) -> Complex[Tensor, "head channel"]:
        """The eigenvalues, largest first by size, those of ``B^T A``; all others are 0. As many as there are channels.

        Raises
        ------
        ValueError
            If the circuit writes rows of another width than it reads: it then has none.
        """
        if self.A.shape[-2] != self.B.shape[-2]:
            raise ValueError(f"a circuit from width {self.A.shape[-2]} to {self.B.shape[-2]} has no eigenvalues")
        found = torch.linalg.eigvals(self.B.double().mT @ self.A.double())
        return found.gather(-1, found.abs().argsort(-1, descending=True))

    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return directions read ``(head, model, channel)``, singular values, directions written, as columns.

        The signs of a pair of directions are arbitrary, and where two singular values are equal their directions too.
        """
        left, right = (torch.linalg.qr(factor.double()) for factor in (self.A, self.B))
        U, S, Vh = torch.linalg.svd(left.R @ right.R.mT)
        return left.Q @ U, S, right.Q @ Vh.mT


@dataclass(frozen=True)
class Circuits:
    """The two circuits of each head of a layer."""

    QK: Circuit
    OV: Circuit


def circuits(layer: AttentionLayer, *, distance: float | int | None = None) -> Circuits:
    r"""Return the circuits of a layer, in the row convention: ``x_i QK x_j^T`` and ``x_j OV``.

    .. math::  QK = W_Q R(\Delta) W_K^\top, \qquad OV = W_V W_O

    The scores' content is ``QK / sqrt(channel)``; where the layer's scale is another, ``W_Q`` carries the difference.

    Parameters
    ----------
    distance
        :math:`\Delta`, query less key: needed with rotary positions, where there is one ``QK`` for each distance.

    Raises
    ------
    ValueError
        If the layer has rotary positions and no distance is given, or none and one is; or if something inside the
        attention leaves no fixed matrix between queries and keys, such as a norm (`AttentionLayer.plain`).

    References
    ----------
    Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021).

    Examples
    --------
    >>> up, right = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[3.0], [0.0]]])
    >>> nil = torch.zeros(1, 1)
    >>> layer = AttentionLayer(up, right, up, up.mT, nil, nil, nil, torch.zeros(2))
    >>> circuits(layer).QK.S, circuits(layer).OV.eigenvalues.real
    (tensor([[3.]], dtype=torch.float64), tensor([[1.]], dtype=torch.float64))
    """
    OV = Circuit(layer.per_head(layer.W_V), layer.W_O.mT)
    if isinstance(layer.positions, Rotary):
        if distance is None:
            raise ValueError("layer has rotary positions: say at which distance, query less key")
        rotary, W_Q = rotation_of(layer), layer.W_Q.double()  # angles need the digits, whatever the weights are in
        rotary = replace(rotary, frequencies=rotary.frequencies.double())
        turn = torch.polar(torch.ones_like(rotary.frequencies), rotary.frequencies * distance)
        turned = unpair_channels(pair_channels(W_Q, rotary) * turn.to(W_Q.device), rotary)
        A = turned * rotary.attention_factor**2 + split_channels(W_Q, rotary)[1]
        return Circuits(Circuit(A * (layer.scale * layer.channel**0.5), layer.per_head(layer.W_K).double()), OV)
    if distance is not None:
        raise ValueError(f"layer has no rotary positions ({layer.positions.kind}): its QK is the same at any distance")
    plain = layer.plain()
    return Circuits(Circuit(plain.W_Q, plain.W_K), OV)


def constant_pattern(weights: AttentionLayer) -> Float[Tensor, "head model"]:
    r"""Return the part of every pattern that does not depend on the query: :math:`c_h = b^Q_h W^{K\top}_h`.

    Multiplied with a key's row and divided by ``sqrt(channel)`` it is the key semi-bias.
    """
    weights = weights.plain()
    return einsum(weights.b_Q, weights.W_K, "head channel, head model channel -> head model")


def update_bias(weights: AttentionLayer) -> Float[Tensor, " model"]:
    r"""Return the bias that all heads leave: :math:`b^O + \sum_h b^V_h W^O_h` (rows of attention sum to 1).

    Raises
    ------
    ValueError
        If the layer has sinks: rows of attention then sum to less than 1, and how often the bias arrives depends on
        the text.
    """
    if weights.sinks is not None:
        raise ValueError("layer has sinks: its rows of attention sum to less than 1, so the value bias is not constant")
    return weights.b_O + einsum(weights.per_head(weights.b_V), weights.W_O, "head value, head value model -> model")


@checked
def patterns(x: Residual, weights: AttentionLayer) -> Patterns:
    r"""Compute what each query looks for, in the coordinates of the stream.

    .. math::  P_h = x W^P_h + \mathbf{1} c_h = (x W^Q_h + b^Q_h) W^{K\top}_h

    Computed through the factors, ``channel / model`` times the work of the merged matrix.

    Notes
    -----
    McCormick's formula has no biases, so no :math:`c_h`.
    """
    weights = weights.plain()
    queries = einsum(x, weights.W_Q, "... query model, head model channel -> ... head query channel")
    queries = queries + weights.b_Q[:, None]
    return einsum(queries, weights.W_K, "... head query channel, head model channel -> ... head query model")


@checked
def messages(x: Residual, weights: AttentionLayer) -> Messages:
    """Compute what each key delivers in each head: ``M_h = x W^M_h``, without biases."""
    values = einsum(x, weights.per_head(weights.W_V), "... key model, head model channel -> ... head key channel")
    return einsum(values, weights.W_O, "... head key channel, head channel model -> ... head key model")


@checked
def match(patterns: Patterns, x: Float[Tensor, "*others key model"], channel: int, *, causal: bool = False) -> Scores:
    r"""Score every key against every pattern: ``P_h x^T / sqrt(channel)``.

    These are the scores of the layer less what is constant in a row, the two terms with ``b_K``; after the softmax
    there is no difference.

    Parameters
    ----------
    channel
        The head's width, not the stream's: merging the matrices does not change the divisor.

    Examples
    --------
    >>> match(torch.tensor([[[0.0, 4.0]]]), torch.tensor([[9.0, 1.0], [9.0, 2.0]]),
    ...       channel=4)
    tensor([[[2., 4.]]])
    """
    if not channel >= 1:
        raise ValueError(f"channel must be the width of a head, at least 1, got {channel}")
    scores = einsum(patterns, x, "... head query model, ... key model -> ... head query key") / math.sqrt(channel)
    return mask_future(scores) if causal else scores


@checked
def deliver(
    attention: Attention, messages: Float[Tensor, "*others head key model"]
) -> Float[Tensor, "*batch head query model"]:
    r"""Sum each head's messages, weighted by how much the query attends to each key. Linear in each argument alone.

    .. math::  u_{hq} = \sum_k A_{hqk}\, m_{hk}

    The layer is the sum over heads plus :func:`update_bias`.

    Examples
    --------
    One head, two positions. The second query attends to both keys equally:

    >>> attention = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> deliver(attention, torch.tensor([[[2.0, 0.0], [0.0, 4.0]]]))
    tensor([[[2., 0.],
             [1., 2.]]])
    """
    return einsum(attention, messages, "... head query key, ... head key model -> ... head query model")


@checked
def attend_by_patterns(x: Residual, weights: AttentionLayer) -> Attended:
    """Run a plain layer as patterns and messages; equal to ``attention.attend`` except for row constants of the scores.

    ``updates`` are the heads' parts without ``b_V W_O``, which is part of the common bias.
    """
    scores = hide_keys(match(patterns(x, weights), x, weights.channel), weights.mask)
    attention = softmax(scores)
    updates = deliver(attention, messages(x, weights))
    return Attended(scores, attention, updates, updates.sum(-3) + update_bias(weights))


@checked(finite=True)
def change_gauge(
    weights: AttentionLayer,
    G: Float[Tensor, "head channel channel"] | None = None,
    H: Float[Tensor, "head channel channel"] | None = None,
) -> AttentionLayer:
    r"""Rewrite the factors so that no output changes: other queries, keys and values, the same layer.

    .. math::  W^Q \to W^Q G,\; b^Q \to b^Q G,\; W^K \to W^K G^{-\top},\; b^K \to b^K G^{-\top};\qquad
               W^V \to W^V H,\; b^V \to b^V H,\; W^O \to H^{-1} W^O

    Parameters
    ----------
    G, H
        One invertible matrix per head, for queries and keys, and for values and output; ``None`` leaves them.

    Raises
    ------
    ValueError
        If a matrix is singular, to working precision.

    Notes
    -----
    ``W^P``, ``c``, ``W^M`` and the scores do not change, the entries of ``W_Q`` may be anything.
    """
    weights = weights.plain()
    for name, matrix in (("G", G), ("H", H)):
        if matrix is None:
            continue
        condition = torch.linalg.cond(matrix)
        if not (condition <= 1 / torch.finfo(matrix.dtype).eps).all():
            raise ValueError(f"{name} must be invertible in every head, its condition number is {condition.max():.3g}")
    # Queries by G and keys by its inverse transposed: their products stay.
    if G is not None:
        inverse = torch.linalg.inv(G).mT
        weights = replace(
            weights,
            W_Q=weights.W_Q @ G,
            W_K=weights.W_K @ inverse,
            b_Q=(weights.b_Q[:, None] @ G)[:, 0],
            b_K=(weights.b_K[:, None] @ inverse)[:, 0],
        )
    # Values by H, and the output matrix undoes it.
    if H is not None:
        weights = replace(
            weights, W_V=weights.W_V @ H, b_V=(weights.b_V[:, None] @ H)[:, 0], W_O=torch.linalg.solve(H, weights.W_O)
        )
    return weights


def rotary_qk_matrix(weights: AttentionLayer, offset: float | int, base: float | int = 10000.0) -> PerHead:
    r"""Merge a head with rotary embeddings, for one offset ``query - key``: :math:`W^Q R(m - n) W^{K\top}`.

    There is one such matrix per offset. All of them lie in a space of ``channel`` dimensions: with
    :math:`R(o) = \sum_f \cos(o\theta_f) E_f + \sin(o\theta_f) J_f` each is a sum of ``channel`` fixed matrices.
    """
    weights = weights.plain()
    R = rotation(offset, weights.channel, base).to(weights.W_Q)
    return einsum(weights.W_Q, R, weights.W_K, "head model channel, channel turned, head out turned -> head model out")


def rotary_remainder(offsets: int, channel: int, base: float | int = 10000.0) -> Float[Tensor, " rank"]:
    r"""Return what the best ``k = 1, 2, ...`` fixed matrices leave of the rotations of offsets ``0 ... offsets - 1``.

    Root mean square over offsets of ``|R(o) - its projection|_F``, as a share of ``|R(o)|_F``, which is
    ``sqrt(channel)``; the best matrices for all offsets together. The same holds for ``W_Q R(o) W_K^T`` on average
    over random factors.

    >>> rotary_remainder(1, 4)
    tensor([0.], dtype=torch.float64)
    """
    if offsets < 1:
        raise ValueError(f"offsets must be at least 1, got {offsets}")
    turns = [rotation(o, channel, base) for o in range(offsets)]
    half = channel // 2
    waves = torch.stack([torch.cat([R.diagonal()[:half], R.diagonal(half)]) for R in turns])  # cosines, sines
    squares = torch.linalg.svdvals(waves).square()
    return (1 - squares.cumsum(0) / squares.sum()).clamp_min(0).sqrt()
