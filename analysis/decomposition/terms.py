r"""The parts of a score: content, what is common to all queries, key semi-bias, query side, kernel, positions.

With queries :math:`x_iW_Q + b_Q` and keys :math:`x_jW_K + b_K` a score is bilinear in both once each has been divided
by its own norm and turned by its own position, so it is a sum of the same parts in every family; which of them a
softmax cannot see differs.
"""

from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.axes import Residual, Scores
from analysis.core.checks import all_finite, check_products
from analysis.core.positions import Rotary, StreamPositions, Tempered
from analysis.core.shapes import say_shapes
from analysis.core.signatures import checked
from analysis.decomposition.folding import fold_norm
from analysis.transformer.attention import Places, added_by_positions, arrange, check_places, project
from analysis.transformer.layernorm import check_layer_norm, divisor

PerKey = Float[Tensor, "*batch head key"]
Part = Float[Tensor, "*#batch head #query #key"]
"""Of scores: an axis of length 1 where the part is constant along it."""
Rows = Float[Tensor, "*#batch head #position channel"]
"""Of queries or keys a part: one row per position, or one for all."""


@dataclass(frozen=True)
class ScoreTerms:
    """The parts of a score before any soft cap and mask, in nats; they broadcast against each other.

    Where nothing turns or normalises queries and keys, what does not depend on the query or on the key has one row or
    one column, and ``query_side`` and ``kernel`` vanish in the softmax.

    Attributes
    ----------
    content
        ``(..., head, query, key)``: without biases, the queries counted from the origin.
    common
        ``(..., head, 1, key)``: the origin as a query; ``(head, 1, 1)`` zeros where the origin is 0.
    semi_bias
        ``(..., head, 1, key)``: ``b_Q`` with the key; for every query the same.
    query_side
        ``(..., head, query, 1)``: the query, without its bias, with ``b_K``.
    kernel
        ``(head, 1, 1)``: ``b_Q`` with ``b_K``; with rotary positions a function of the distance.
    positions
        What positions add, apart from turning queries and keys (ALiBi, buckets); ``None`` if they add nothing.
    """

    content: Scores
    common: Part
    semi_bias: Part
    query_side: Part
    kernel: Part
    positions: Part | None = None

    __repr__ = say_shapes

    def total(self) -> Scores:
        """Add the parts up: exactly :func:`analysis.transformer.attention.compute_scores`."""
        return reduce(add, self._parts().values())

    def stack(self, *names: str) -> Float[Tensor, "part *any head query key"]:
        """Return the named parts, or all that there are in the order of the fields, each in the shape of the score.

        So :mod:`analysis.maps.attribution` takes them.
        """
        parts = self._parts()
        shape = torch.broadcast_shapes(*(part.shape for part in parts.values()))
        return torch.stack([parts[name].expand(shape) for name in names or parts])

    def _parts(self) -> dict[str, Tensor]:
        return {field.name: part for field in fields(self) if (part := getattr(self, field.name)) is not None}


@checked(finite=True)
def score_terms(
    x: Residual,
    layer: AttentionLayer,
    origin: Float[Tensor, " model"] | None = None,
    queries: Float[Tensor, "*any query model"] | None = None,
    positions: Places | None = None,
) -> ScoreTerms:
    r"""Take the scores of any layer apart by its query and key biases, and by an origin of its queries.

    .. math::

        \sqrt{c}\, s_{ij} = \underbrace{(x_i - o) W_Q R W_K^\top x_j^\top}_{\text{content}}
        + \underbrace{o\, W_Q R W_K^\top x_j^\top}_{\text{common}}
        + \underbrace{b_Q R W_K^\top x_j^\top}_{\text{semi-bias}}
        + \underbrace{x_i W_Q R b_K^\top}_{\text{query side}} + \underbrace{b_Q R b_K^\top}_{\text{kernel}}

    where :math:`R` is the rotation of :math:`i - j`, in most families none. Where queries and keys pass through a norm,
    each part is divided by the size of the whole query and the whole key, so the sum is still exact; a part that would
    be constant along a row then is not. A norm's own bias belongs to ``b_Q`` or ``b_K``.

    Parameters
    ----------
    x
        What the attention reads (for a pre-LN model the normalised stream).
    origin
        ``o``, such as the mean of what a layer reads: what all queries share is then a part of its own. Default 0.
    queries
        The rows that the queries are made of, where they are not ``x``.
    positions
        As `compute_scores` takes them.

    Raises
    ------
    TypeError, ValueError
        If ``x``, ``origin`` or ``queries`` has another width or dtype than the layer, no position, or entries that are
        not finite; or if there are ``queries`` where positions act inside the attention: their positions are unknown.

    References
    ----------
    Dai et al., *Transformer-XL* (2019), whose scores have these four parts with vectors of their own; Su, kexue.fm/
    archives/9577 (2023), on rotary positions.

    Examples
    --------
    One head of one channel, ``x = 1`` and 2, ``W_Q = W_K = 1``, ``b_Q = 10``, ``b_K = 0``: scores ``(x_i + 10) x_j``.

    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 10, zero, zero, zero[0])
    >>> terms = score_terms(torch.tensor([[1.0], [2.0]]), layer)
    >>> terms.content, terms.semi_bias
    (tensor([[[1., 2.],
             [2., 4.]]]), tensor([[[10., 20.]]]))

    A head that reads nothing and has biases ``(1, 0)`` turned by a quarter each step: the kernel is a cosine.

    >>> none, one = torch.zeros(1, 1, 2), torch.tensor([[1.0, 0.0]])
    >>> quarter = Rotary(torch.tensor([torch.pi / 2]), 2)
    >>> layer = AttentionLayer(none, none, none, none.mT, one, one, one, torch.zeros(1),
    ...                        scale=1.0, positions=quarter)
    >>> score_terms(torch.zeros(3, 1), layer).kernel.round().abs()
    tensor([[[1., 0., 1.],
             [0., 1., 0.],
             [1., 0., 1.]]])
    """
    check_places(positions, layer)
    if queries is None:
        queries = x
    elif not isinstance(layer.positions, StreamPositions):
        raise ValueError(
            f"queries must be those of x where positions act inside the attention ({layer.positions.kind}): where "
            "others stand is unknown"
        )
    own, about, b_Q, whole_query = _parts_of(queries, layer, "query", positions, origin)
    keys, _, b_K, whole_key = _parts_of(x, layer, "key", positions)
    terms = multiply_out(own, b_Q, layer.per_head(keys, -3), layer.per_head(b_K, -3), scale=layer.scale, origin=about)
    if whole_query is None or whole_key is None:
        return terms
    return replace(terms, positions=added_by_positions(whole_query, whole_key, layer, positions))


def multiply_out(
    queries: Float[Tensor, "*batch head query channel"],
    b_Q: Float[Tensor, "*#batch head #query channel"],
    keys: Float[Tensor, "*batch head key channel"],
    b_K: Float[Tensor, "*#batch head #key channel"],
    *,
    scale: float,
    origin: Float[Tensor, "*#batch head #query channel"] | None = None,
) -> ScoreTerms:
    """Multiply ``queries + origin + b_Q`` with ``keys + b_K``, each of them as it stands when queries and keys meet.

    >>> one = torch.ones(1, 1, 1)
    >>> terms = multiply_out(5 * one, 2 * one, 5 * one, 3 * one, scale=1.0)
    >>> terms.stack("content", "semi_bias", "query_side", "kernel").flatten()
    tensor([25., 10., 15.,  6.])
    """
    whole = queries if origin is None else queries + origin
    check_products(whole.abs() + b_Q.abs(), keys.abs() + b_K.abs(), "queries and keys")
    keys, b_K = scale * keys.mT, scale * b_K.mT
    common = queries.new_zeros(queries.shape[-3], 1, 1) if origin is None else origin @ keys
    return ScoreTerms(queries @ keys, common, b_Q @ keys, whole @ b_K, b_Q @ b_K)


def _parts_of(
    rows: Float[Tensor, "*any position model"],
    layer: AttentionLayer,
    side: str,
    at: Places | None,
    origin: Float[Tensor, " model"] | None = None,
) -> tuple[Rows, Rows | None, Rows, Rows | None]:
    """Return three parts of the queries or keys as they meet: of the rows from the origin on, of the origin, the bias.

    And the whole of them, where positions or a norm need it.
    """
    W, b = (layer.W_Q, layer.b_Q) if side == "query" else (layer.W_K, layer.b_K)
    none, bias = torch.zeros_like(b), b[:, None]
    own = project(rows if origin is None else rows - origin, W, none)
    about = None if origin is None else project(origin[None], W, none)
    if isinstance(layer.positions, StreamPositions) and layer.qk_norm is None:
        return own, about, bias, None
    whole = own + bias if about is None else own + about + bias
    if layer.qk_norm is None and not isinstance(layer.positions, Rotary | Tempered):
        return own, about, bias, whole
    arranged = arrange(whole, layer, side, positions=at)
    own = arrange(own.expand_as(whole), layer, side, whole, at)
    about = None if about is None else arrange(about.expand_as(whole), layer, side, whole, at)
    if layer.qk_norm is None:
        return own, about, arrange(bias.expand_as(whole), layer, side, positions=at), arranged
    return own, about, arranged - (own if about is None else own + about), arranged  # with the bias of the norm


def key_direction(layer: AttentionLayer) -> Float[Tensor, "head model"]:
    """Return ``b_Q W_K^T / sqrt(channel)``: the direction of the stream in which a head prefers keys for every query.

    Raises
    ------
    ValueError
        If this is not a plain attention layer (`AttentionLayer.plain`): with rotary positions the direction turns.

    Examples
    --------
    >>> one, zero = torch.ones(1, 2, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one.mT, zero + 3, zero, zero,
    ...                        torch.zeros(2))
    >>> key_direction(layer)
    tensor([[3., 3.]])
    """
    layer = layer.plain()
    check_products(layer.b_Q, layer.W_K, "b_Q and W_K")
    return layer.scale * einsum(layer.b_Q, layer.W_K, "head channel, head model channel -> head model")


@checked
def semi_bias(y: Float[Tensor, "*batch key model"], layer: AttentionLayer) -> PerKey:
    r"""Return each key's semi-bias ``b_Q W_K^T y^T / sqrt(channel)``: the score that it gets from every query.

    The fast way to this one part of `score_terms`: ``b_Q W_K^T`` is collapsed first, so the cost is one product of
    ``(key, model)`` with ``(model, head)`` and no key is ever formed. ``y`` may be anything that lives in the stream:
    what a layer read, or positions or tokens. A layer with a norm before it reads rows that have passed it; raw rows
    give it another scale than the model's scores have. For a table of positions or tokens, pass
    ``apply_norm(table, layer.norm())``. With the weights of ``fold_norm``, which count the bias of the norm among the
    biases, give the table divided by ``sigma``.

    Raises
    ------
    ValueError
        If ``y`` has another width or dtype than the layer, no row, or entries that are not finite; or if this is no
        plain attention layer (`AttentionLayer.plain`).

    Examples
    --------
    >>> one, zero = torch.ones(1, 2, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one.mT, zero + 3, zero, zero,
    ...                        torch.zeros(2))
    >>> semi_bias(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), layer)
    tensor([[3., 6.]])
    """
    result = (y @ key_direction(layer).mT).mT  # in this order: twice as fast on a vocabulary as the other
    if not all_finite(result):  # nan and inf spread, so the small result tells of the large input
        raise ValueError("y holds entries that are not finite (nan or inf), or too large for its dtype")
    return result


@dataclass(frozen=True)
class SixTerms:
    """The scores of a pre-LN first layer, first letter for the query: token ``e`` or position ``p``.

    ``ee ep pe pp`` are query against key, ``(..., head, query, key)``; ``e`` and ``p``, ``(..., head, key)``, are the
    key semi-bias of tokens and positions, exact with LayerNorm; ``query_side`` and ``kernel`` are those of
    `ScoreTerms`, which complete the sum and vanish in the softmax.
    """

    ee: Scores
    ep: Scores
    pe: Scores
    pp: Scores
    e: PerKey
    p: PerKey
    query_side: Part
    kernel: Part

    __repr__ = say_shapes

    def total(self) -> Scores:
        """Add the parts up: exactly the scores of the layer reading ``LN(token + position)``, before the mask."""
        content = self.ee + self.ep + self.pe + self.pp
        return content + (self.e + self.p)[..., None, :] + self.query_side + self.kernel


@checked(finite=True)
def six_terms(e: Residual, p: Float[Tensor, "position model"], layer: AttentionLayer, norm: Norm) -> SixTerms:
    r"""Take the scores of a first layer that reads ``LN(e + p)`` apart by token and position.

    With the weights of ``fold_norm`` and ``sigma_i = sigma(e_i + p_i)``

    .. math::

        \sqrt{c}\, s_{ij} = \sum_{a, b \in \{e, p\}} \frac{a_i \tilde W_Q \tilde W_K^\top b_j^\top}{\sigma_i \sigma_j}
        + \frac{\tilde b_Q \tilde W_K^\top (e_j + p_j)^\top}{\sigma_j}
        + \frac{(e_i + p_i) \tilde W_Q \tilde b_K^\top}{\sigma_i} + \tilde b_Q \tilde b_K^\top

    ``sigma`` couples tokens and positions: no term is free of the token.

    Parameters
    ----------
    e
        Token rows, one per position, in stream units.
    p
        Position rows, as many.
    norm
        The LayerNorm before the layer.

    Raises
    ------
    ValueError
        If widths, lengths or dtypes disagree, or an entry is not finite; if this is not a plain attention layer, or the
        norm no LayerNorm.

    References
    ----------
    Kamoda, *Dissecting GPT*, "Positional encoding and attention bias", whose printed terms leave out
    ``1 / sqrt(c)``.

    Examples
    --------
    The token reads ``(1, -1)``, the position adds nothing, so only ``ee`` is not 0: ``(1 + 1) / sqrt(2)``.

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionLayer(eye, eye, eye, eye, zero, zero, zero, torch.zeros(2))
    >>> norm = Norm(torch.ones(2), torch.zeros(2), eps=0.0)
    >>> terms = six_terms(torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2), layer, norm)
    >>> terms.ee, terms.pp, terms.p
    (tensor([[[1.4142]]]), tensor([[[0.]]]), tensor([[0.]]))
    """
    check_layer_norm(norm)
    folded, width = fold_norm(layer.plain(), norm), divisor(e + p, norm.eps, "e + p")
    e, p = e / width, p / width
    ee, ep, pe, pp = (score_terms(key, folded, queries=query) for query in (e, p) for key in (e, p))
    return SixTerms(
        *(terms.content for terms in (ee, ep, pe, pp)),
        e=ee.semi_bias[..., 0, :],
        p=pp.semi_bias[..., 0, :],
        query_side=ee.query_side + pp.query_side,
        kernel=ee.kernel,
    )
