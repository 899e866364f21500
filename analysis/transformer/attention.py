r"""Multi-head attention of any family: the plain formulas that every rewriting in the book is compared with.

Grouped queries, positions inside the attention, norms of queries and keys, sinks, a soft cap, windows: whatever an
`AttentionLayer` says, on any number of leading batch axes.
"""

import math
from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.axes import Attention, Projected, Residual, Scores
from analysis.core.checks import check_products
from analysis.core.positions import Alibi, Disentangled, RelativeBuckets, Rotary, ScoreTable, StreamPositions, Tempered
from analysis.core.shapes import say_shapes
from analysis.core.signatures import checked
from analysis.transformer.layernorm import apply_norm, divide_by_size
from analysis.transformer.position_scores import alibi_slopes, bucket_scores, disentangled_scores, temperatures
from analysis.transformer.rotary import rotate

Grouped = Float[Tensor, "*batch group position channel"]
"""Keys or values of groups of heads."""
Places = Int[Tensor, "*#batch position"]
"""Positions of rows: a whole number for each."""


@checked
def project(x: Residual, W: Float[Tensor, "head model channel"], b: Float[Tensor, "head channel"]) -> Projected:
    """Return ``x W + b`` for each head: the queries, keys or values of a layer.

    >>> x = torch.tensor([[1.0, 2.0]])
    >>> project(x, torch.eye(2)[None], torch.tensor([[10.0, 0.0]]))
    tensor([[[11.,  2.]]])
    """
    return einsum(x, W, "... position model, head model channel -> ... head position channel") + b[:, None]


def check_places(positions: Places | None, layer: AttentionLayer) -> None:
    """Raise for positions given to a layer that counts the distance of rows by itself."""
    if positions is not None and not isinstance(layer.positions, Rotary | Alibi | StreamPositions):
        raise ValueError(
            "positions are followed where they turn queries and keys, or with ALiBi; this layer has "
            f"{layer.positions.kind}: leave them out"
        )


def queries_and_keys(x: Residual, layer: AttentionLayer, positions: Places | None = None) -> tuple[Projected, Grouped]:
    """Return queries and keys as they meet: normalised and turned where the family does so, keys still in groups."""
    queries, keys = project(x, layer.W_Q, layer.b_Q), project(x, layer.W_K, layer.b_K)
    return arrange(queries, layer, "query", positions=positions), arrange(keys, layer, "key", positions=positions)


def arrange(
    rows: Projected, layer: AttentionLayer, side: str, by: Projected | None = None, positions: Places | None = None
) -> Projected:
    """Normalise and turn projected rows as the family does before they meet.

    Parameters
    ----------
    side
        ``"query"`` or ``"key"``.
    by
        The whole queries or keys of which ``rows`` are a part: the part is divided by the whole's norm, and gets
        nothing of a norm's bias. Parts so arranged add up to the whole but for that bias.
    positions
        Positions of the rows, if they are not 0, 1, 2, ...
    """
    # Norm and rotation, in the family's order; then what grows with the position.
    pair, rotary = layer.qk_norm, layer.positions if isinstance(layer.positions, Rotary) else None
    at = None if positions is None else positions.to(rows).unsqueeze(-2)  # for all heads
    if pair and not pair.after_rotation:
        rows = _normalise(rows, getattr(pair, side), pair, by)
    if rotary:
        rows = rotate(rows, rotary, at)
    if pair and pair.after_rotation:
        by = rotate(by, rotary, at) if rotary and by is not None else by
        rows = _normalise(rows, getattr(pair, side), pair, by)
    if side == "query" and isinstance(layer.positions, Tempered):
        rows = rows * temperatures(layer.positions, rows.shape[-2]).to(rows)[:, None]
    return rows


def _normalise(rows: Projected, norm: Norm, pair: QueryKeyNorm, by: Projected | None) -> Projected:
    """Apply a norm of queries or keys: head by head, or over all heads together; ``by`` as in `arrange`."""
    heads = rows.shape[-3]
    if pair.whole:
        rows, by = _whole(rows), None if by is None else _whole(by)
    rows = apply_norm(rows, norm) if by is None else divide_by_size(rows, norm, by) * norm.gain
    return rows.unflatten(-1, (heads, -1)).transpose(-3, -2) if pair.whole else rows


def _whole(rows: Projected) -> Float[Tensor, "*any position whole"]:
    """Put the heads of each position side by side."""
    return rows.transpose(-3, -2).flatten(-2)


def meet(queries: Projected, keys: Grouped, layer: AttentionLayer) -> Scores:
    """Return scaled products of queries with the keys of their group, without what positions add."""
    check_products(queries, keys, "queries and keys")
    return layer.scale * (queries @ layer.per_head(keys, -3).mT)


def added_by_positions(
    queries: Projected, keys: Grouped, layer: AttentionLayer, at: Places | None = None
) -> Float[Tensor, "*any head query key"] | None:
    """Return what positions add to the scores, apart from turning queries and keys; ``None`` if they add nothing."""
    positions, n = layer.positions, queries.shape[-2]
    if isinstance(positions, Alibi):
        place = torch.arange(n, device=queries.device) if at is None else at.unsqueeze(-2)  # for all heads
        return -alibi_slopes(positions).to(queries)[:, None, None] * (place[..., :, None] - place[..., None, :])
    if isinstance(positions, RelativeBuckets):
        return bucket_scores(positions, n, n)
    if isinstance(positions, ScoreTable):
        if (size := positions.table.shape[-1]) != n:
            raise ValueError(f"x must have {size} positions, for which the layer has a table, got {n}")
        return positions.table
    if isinstance(positions, Disentangled):
        return layer.scale * disentangled_scores(queries, layer.per_head(keys, -3), positions)
    return None


@checked
def compute_scores(x: Residual, layer: AttentionLayer, positions: Places | None = None) -> Scores:
    """Return the scores of each head before any soft cap and mask; in a plain layer ``q k^T / sqrt(channel)``.

    Parameters
    ----------
    x
        What the attention reads: after the norm, where the family has one before it.
    positions
        Positions of the rows, if they are not 0, 1, 2, ...; for a layer with rotary positions or ALiBi.

    Raises
    ------
    TypeError, ValueError
        If ``x`` has another width or dtype than the layer, or no position, or is so large that a score is not finite;
        or if there are ``positions`` and the layer counts distances by itself.

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> layer = AttentionLayer(one, one, one, one, zero + 10, zero, zero, zero[0])
    >>> compute_scores(torch.tensor([[1.0], [2.0]]), layer)
    tensor([[[11., 22.],
             [12., 24.]]])
    """
    check_places(positions, layer)
    queries, keys = queries_and_keys(x, layer, positions)
    scores, added = meet(queries, keys, layer), added_by_positions(queries, keys, layer, positions)
    return scores if added is None else scores + added


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


def visible_keys(
    mask: Mask, positions: int, device: torch.device | str = "cpu", queries: slice = slice(None)
) -> Bool[Tensor, "query key"]:
    """Return which keys each query sees, or each of some.

    >>> visible_keys(Mask(causal=True, reach=1), 3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    place = torch.arange(positions, device=device)
    distance = place[queries, None] - place
    seen = distance >= 0 if mask.causal else torch.ones_like(distance, dtype=torch.bool)
    if mask.reach is not None:
        seen = seen & (distance.abs() <= mask.reach)
    return seen if mask.chunk is None else seen & _same_chunk(place, mask.chunk)[queries]


def hide_keys(scores: Scores, mask: Mask, keep: Bool[Tensor, "*any position"] | None = None) -> Scores:
    """Put minus infinity where a query does not see a key; blocks are counted from the first token, padding apart."""
    if keep is None and mask.reach is None and mask.chunk is None:
        return mask_future(scores) if mask.causal else scores
    n, device = scores.shape[-1], scores.device
    if keep is None:
        return scores.masked_fill(~visible_keys(mask, n, device), -math.inf)
    seen = visible_keys(replace(mask, chunk=None), n, device) & keep[..., None, None, :]
    if mask.chunk is not None:
        place = torch.arange(n, device=device) - keep.int().argmax(-1, keepdim=True)
        seen = seen & _same_chunk(place, mask.chunk)[..., None, :, :]
    return scores.masked_fill(~seen, -math.inf)


def _same_chunk(place: Tensor, chunk: int) -> Tensor:
    return place[..., :, None] // chunk == place[..., None, :] // chunk


@checked
def softmax(scores: Float[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Turn scores into attention: each row exponentiated and divided by its sum.

    >>> softmax(torch.zeros(1, 1, 4))
    tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    return scores.softmax(-1)


def weigh(
    scores: Scores, layer: AttentionLayer, keep: Bool[Tensor, "*any position"] | None = None
) -> tuple[Scores, Attention]:
    """Turn the scores of a layer into its attention: the soft cap, the mask, the softmax, with sinks if there are any.

    Returns what the softmax reads and what it returns; ``keep`` as in `attend`.
    """
    scores = hide_keys(cap(scores, layer), layer.mask, keep)
    if layer.sinks is None:
        return scores, scores.softmax(-1)
    sink = layer.sinks[:, None, None].expand(*scores.shape[:-1], 1)  # one key more, without a value: rows sum to < 1
    return scores, torch.cat([scores, sink], -1).softmax(-1)[..., :-1]


def cap(scores: Float[Tensor, "*any"], layer: AttentionLayer) -> Float[Tensor, "*any"]:
    """Keep scores within the soft cap of a layer, if it has one."""
    return scores if layer.soft_cap is None else layer.soft_cap * torch.tanh(scores / layer.soft_cap)


@dataclass(frozen=True)
class Attended:
    """What a layer computed: its scores, its attention, each head's update, and their sum plus ``b_O``."""

    scores: Scores
    attention: Attention
    updates: Float[Tensor, "*batch head query model"]
    output: Float[Tensor, "*batch query model"]

    __repr__ = say_shapes


@checked
def attend(
    x: Residual,
    layer: AttentionLayer,
    *,
    keep: Bool[Tensor, "*batch position"] | None = None,
    positions: Places | None = None,
) -> Attended:
    r"""Run one attention layer of any family and keep what it computed on the way.

    .. math::  y_i = \sum_h \sum_j \alpha_{hij}\, v_h(x_j)\, W^O_h + b^O

    Concatenating the heads and multiplying by ``W_O`` is this sum over heads.

    Parameters
    ----------
    x
        What the attention reads: after the norm, where the family has one before it.
    layer
        Its ``mask`` says whether a query may attend to later keys (BERT) or not (GPT-2).
    keep
        ``False`` where a position is padding; default: none is. Its row is not read, whatever it holds. A query that
        sees no key has a row of nan, and what comes out at padded queries means nothing.
    positions
        As `compute_scores` takes them; which keys a query sees is counted in rows, whatever they are.

    Returns
    -------
    Attended
        ``scores`` are what the softmax reads: after the soft cap, minus infinity where a query does not see a key.
        ``updates`` are the heads' parts of the output, before ``b_O`` and any norm of the update.

    Raises
    ------
    TypeError, ValueError
        If ``x`` has another width or dtype than the layer, or no position; if ``keep`` does not fit ``x``; or if ``x``
        is so large that a product leaves the range of its dtype.

    References
    ----------
    Vaswani et al., *Attention Is All You Need* (2017).

    Examples
    --------
    One head that cannot tell keys apart (``W_Q = 0``) returns running means:

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionLayer(0 * eye, eye, eye, eye, zero, zero, zero, zero[0],
    ...                        mask=Mask(causal=True))
    >>> attend(torch.tensor([[0.0, 4.0], [2.0, 0.0]]), layer).output
    tensor([[0., 4.],
            [1., 2.]])
    """
    if keep is not None:
        x = x.masked_fill(~keep[..., None], 0)  # a weight of 0 does not hide a nan
    scores, attention = weigh(compute_scores(x, layer, positions), layer, keep)
    values = layer.per_head(project(x, layer.W_V, layer.b_V), -3)
    check_products(values, layer.W_O, "values and W_O")
    updates = einsum(attention @ values, layer.W_O, "... head query value, head value model -> ... head query model")
    return Attended(scores, attention, updates, updates.sum(-3) + layer.b_O)
