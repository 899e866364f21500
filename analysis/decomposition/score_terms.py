"""Scores as sums: content, key semi-bias and the two row constants; six terms where a LayerNorm reads e + p.

What belongs here: rewritings of scores that are exact. What does not: what those parts do to attention
(:mod:`analysis.maps.locality`), and changes of the weights (:mod:`analysis.decomposition.folding`).
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Residual, Scores
from analysis.core.checks import all_finite
from analysis.core.signatures import checked
from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.decomposition.folding import fold_layer_norm
from analysis.transformer.attention import project
from analysis.transformer.layernorm import divisor

PerKey = Float[Tensor, "*batch head key"]
PerQuery = Float[Tensor, "*batch head query"]


@dataclass(frozen=True)
class ScoreTerms:
    """The four parts of a score; ``total()`` is what the softmax reads, before the mask."""

    content: Scores
    semi_bias: PerKey
    query_constant: PerQuery
    constant: Float[Tensor, " head"]

    def total(self) -> Scores:
        """Add the four parts up: exactly ``attention.compute_scores``."""
        return (
            self.content + self.semi_bias[..., None, :] + self.query_constant[..., None] + self.constant[:, None, None]
        )


@checked(finite=True)
def score_terms(x: Residual, weights: AttentionWeights) -> ScoreTerms:
    r"""Split a layer's scores into content, key semi-bias and two row constants.

    .. math::

        \sqrt{c}\, s_{ij} = x_i W_Q W_K^\top x_j^\top + b_Q W_K^\top x_j^\top + x_i W_Q b_K^\top + b_Q b_K^\top

    Only the first two vary along a row, so only they reach the attention weights.

    Parameters
    ----------
    x
        What the layer reads (for a pre-LN model the normalised stream).
    weights
        The layer; ``c`` is its ``channel``.

    Raises
    ------
    ValueError
        If ``x`` has another width or dtype than the weights, no position, or entries that are not finite.

    References
    ----------
    Ledger K-12, K-13, K-16, K-18; the document leaves out ``1/sqrt(c)`` (K-30).

    Examples
    --------
    One head of one channel, ``x = 1`` and 2, ``W_Q = W_K = 1``, ``b_Q = 10``, ``b_K = 0``: scores ``(x_i + 10) x_j``.

    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionWeights(one, one, one, one, zero + 10, zero, zero,
    ...                          torch.zeros(1))
    >>> terms = score_terms(torch.tensor([[1.0], [2.0]]), layer)
    >>> terms.content, terms.semi_bias
    (tensor([[[1., 2.],
             [2., 4.]]]), tensor([[10., 20.]]))
    """
    root = math.sqrt(weights.channel)
    direction = einsum(weights.b_K, weights.W_Q, "head channel, head model channel -> head model") / root
    query_constant = einsum(x, direction, "... query model, head model -> ... head query")
    constant = einsum(weights.b_Q, weights.b_K, "head channel, head channel -> head") / root
    return ScoreTerms(_content(x, x, weights), semi_bias(x, weights), query_constant, constant)


def _content(query_rows: Residual, key_rows: Residual, weights: AttentionWeights) -> Scores:
    """Return ``a W_Q W_K^T b^T / sqrt(channel)``, the part of a score without biases."""
    zero = torch.zeros_like(weights.b_Q)
    queries, keys = project(query_rows, weights.W_Q, zero), project(key_rows, weights.W_K, zero)
    scores = einsum(queries, keys, "... head query channel, ... head key channel -> ... head query key")
    return scores / math.sqrt(weights.channel)


def key_direction(weights: AttentionWeights) -> Float[Tensor, "head model"]:
    """Return ``b_Q W_K^T / sqrt(channel)``: the direction of the stream in which a head prefers keys for every query.

    >>> one, zero = torch.ones(1, 2, 1), torch.zeros(1, 1)
    >>> layer = AttentionWeights(one, one, one, one.mT, zero + 3, zero, zero,
    ...                          torch.zeros(2))
    >>> key_direction(layer)
    tensor([[3., 3.]])
    """
    direction = einsum(weights.b_Q, weights.W_K, "head channel, head model channel -> head model")
    return direction / math.sqrt(weights.channel)


@checked
def semi_bias(y: Float[Tensor, "*batch key model"], weights: AttentionWeights) -> PerKey:
    r"""Return each key's semi-bias ``b_Q W_K^T y^T / sqrt(channel)``: the score that it gets from every query.

    ``b_Q W_K^T`` is collapsed first, so the cost is one product of ``(key, model)`` with ``(model, head)`` and no key
    is ever formed. ``y`` may be anything that lives in the stream: positions or tokens raw; with ``fold_layer_norm``
    weights, positions or tokens divided by ``sigma``; or whatever a layer read.

    Raises
    ------
    ValueError
        If ``y`` has another width or dtype than the weights, no row, or entries that are not finite.

    References
    ----------
    Ledger K-18, K-22, K-27, K-30; P-12 (the constant part of a pattern) and B's equation 3.4 are this term.

    Examples
    --------
    >>> one, zero = torch.ones(1, 2, 1), torch.zeros(1, 1)
    >>> layer = AttentionWeights(one, one, one, one.mT, zero + 3, zero, zero,
    ...                          torch.zeros(2))
    >>> semi_bias(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), layer)
    tensor([[3., 6.]])
    """
    result = (y @ key_direction(weights).mT).mT  # in this order: twice as fast on a vocabulary as the other
    if not all_finite(result):  # nan and inf spread, so the small result tells of the large input
        raise ValueError("y holds entries that are not finite (nan or inf), or too large for its dtype")
    return result


@dataclass(frozen=True)
class SixTerms:
    """The scores of a pre-LN first layer, first letter for the query: token ``e`` or position ``p``.

    ``ee ep pe pp`` are query against key; ``e`` and ``p`` are the key semi-bias of tokens and positions, exact with
    LayerNorm; two row constants complete the sum and vanish in the softmax.
    """

    ee: Scores
    ep: Scores
    pe: Scores
    pp: Scores
    e: PerKey
    p: PerKey
    query_constant: PerQuery
    constant: Float[Tensor, " head"]

    def total(self) -> Scores:
        """Add the parts up: exactly the scores of the layer reading ``LN(token + position)``, before the mask."""
        return (
            self.ee
            + self.ep
            + self.pe
            + self.pp
            + (self.e + self.p)[..., None, :]
            + self.query_constant[..., None]
            + self.constant[:, None, None]
        )


@checked(finite=True)
def six_terms(
    e: Residual, p: Float[Tensor, "position model"], weights: AttentionWeights, ln: LayerNormWeights
) -> SixTerms:
    r"""Take the scores of a first layer that reads ``LN(e + p)`` apart by token and position.

    With ``fold_layer_norm``'s weights and ``sigma_i = sigma(e_i + p_i)``

    .. math::

        \sqrt{c}\, s_{ij} = \sum_{a, b \in \{e, p\}} \frac{a_i \tilde W_Q \tilde W_K^\top b_j^\top}{\sigma_i \sigma_j}
        + \frac{\tilde b_Q \tilde W_K^\top (e_j + p_j)^\top}{\sigma_j}
        + \frac{(e_i + p_i) \tilde W_Q \tilde b_K^\top}{\sigma_i} + \tilde b_Q \tilde b_K^\top

    Parameters
    ----------
    e
        Token rows, one per position, in stream units.
    p
        Position rows, as many.

    Raises
    ------
    ValueError
        If widths, lengths or dtypes disagree, or an entry is not finite.

    References
    ----------
    Ledger K-16, K-25, K-29. ``sigma`` couples tokens and positions: no term is free of the token.

    Examples
    --------
    The token reads ``(1, -1)``, the position adds nothing, so only ``ee`` is not 0: ``(1 + 1) / sqrt(2)``.

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionWeights(eye, eye, eye, eye, zero, zero, zero, torch.zeros(2))
    >>> ln = LayerNormWeights(torch.ones(2), torch.zeros(2), eps=0.0)
    >>> terms = six_terms(torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2), layer, ln)
    >>> terms.ee, terms.pp, terms.p
    (tensor([[[1.4142]]]), tensor([[[0.]]]), tensor([[0.]]))
    """
    folded = fold_layer_norm(weights, ln)
    width = divisor(e + p, ln.eps, "e + p")
    e, p = e / width, p / width
    token, position = score_terms(e, folded), score_terms(p, folded)
    return SixTerms(
        ee=token.content,
        ep=_content(e, p, folded),
        pe=_content(p, e, folded),
        pp=position.content,
        e=token.semi_bias,
        p=position.semi_bias,
        query_constant=token.query_constant + position.query_constant,
        constant=token.constant,
    )
