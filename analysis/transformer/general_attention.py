r"""Attention of any family on plain tensors: grouped queries, positions, norms of queries and keys, sinks, soft cap.

:mod:`analysis.transformer.attention` is the plain case that most chapters are about; this is what a layer of
:mod:`analysis.models.families` computes. What belongs here: scores, softmax, output. What does not: taking them apart
(:mod:`analysis.decomposition.general_terms`).
"""

from dataclasses import replace

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.axes import Attention, Projected, Residual, Scores
from analysis.core.positions import Alibi, Disentangled, RelativeBuckets, Rotary, ScoreTable
from analysis.core.signatures import checked
from analysis.transformer.attention import Attended
from analysis.transformer.position_scores import alibi_slopes, bucket_scores, disentangled_scores
from analysis.transformer.rotary import rotate

Grouped = Float[Tensor, "*batch group position channel"]
"""Keys or values of groups of heads."""


@checked
def apply_norm(rows: Float[Tensor, "*any width"], norm: Norm) -> Float[Tensor, "*any width"]:
    r"""Scale rows as a norm has it, then multiply by its gain and add its bias.

    Raises
    ------
    TypeError, ValueError
        If the rows are not numbers as wide as the norm.

    Examples
    --------
    >>> rows, one, zero = torch.tensor([[3.0, 1.0]]), torch.ones(2), torch.zeros(2)
    >>> [apply_norm(rows, Norm(one, zero, 0.0, kind=kind)) for kind in ("layer", "rms")]
    [tensor([[ 1., -1.]]), tensor([[1.3416, 0.4472]])]
    """
    return _scale(rows, rows, norm) * norm.gain + norm.bias


def _scale(rows: Tensor, by: Tensor, norm: Norm) -> Tensor:
    """Centre rows where the norm does, and divide them by the size of the rows ``by``."""
    if norm.kind == "affine":
        return rows
    if norm.kind == "layer":
        rows, by = rows - rows.mean(-1, keepdim=True), by - by.mean(-1, keepdim=True)
    squares = by.square().mean(-1, keepdim=True)
    if squares.isinf().any():
        raise ValueError(f"rows: too large, the squares are not finite in {rows.dtype}")
    return rows * (squares + norm.eps).rsqrt()


def visible_keys(mask: Mask, positions: int, device: torch.device | str = "cpu") -> Bool[Tensor, "query key"]:
    """Say which keys each query sees.

    >>> visible_keys(Mask(causal=True, reach=1), 3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    place = torch.arange(positions, device=device)
    distance = place[:, None] - place
    seen = distance >= 0 if mask.causal else torch.ones_like(distance, dtype=torch.bool)
    if mask.reach is not None:
        seen = seen & (distance.abs() <= mask.reach)
    return seen if mask.chunk is None else seen & _same_chunk(place, mask.chunk)


def _visible(mask: Mask, x: Tensor, keep: Tensor | None) -> Tensor:
    """Say which keys each query sees, padding left out; blocks are counted from the first token that is none."""
    if keep is None:
        return visible_keys(mask, x.shape[-2], x.device)
    seen = visible_keys(replace(mask, chunk=None), x.shape[-2], x.device) & keep[..., None, None, :]
    if mask.chunk is None:
        return seen
    place = torch.arange(x.shape[-2], device=x.device) - keep.int().argmax(-1, keepdim=True)
    return seen & _same_chunk(place, mask.chunk)[..., None, :, :]


def _same_chunk(place: Tensor, chunk: int) -> Tensor:
    return place[..., :, None] // chunk == place[..., None, :] // chunk


def project_rows(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Return ``x W + b`` for each head or group: `analysis.transformer.attention.project`, of any width."""
    return einsum(x, W, "... position model, head model channel -> ... head position channel") + b[:, None]


def _normalise(rows: Projected, norm: Norm, pair: QueryKeyNorm, by: Projected | None) -> Projected:
    """Apply a norm of queries or keys: head by head, or over all heads together; ``by`` as in `arrange`."""
    heads = rows.shape[-3]
    if pair.whole:
        rows, by = (each if each is None else each.transpose(-3, -2).flatten(-2) for each in (rows, by))
    rows = apply_norm(rows, norm) if by is None else _scale(rows, by, norm) * norm.gain
    return rows.unflatten(-1, (heads, -1)).transpose(-3, -2) if pair.whole else rows


def queries_and_keys(x: Residual, layer: AttentionLayer) -> tuple[Projected, Grouped]:
    """Return queries and keys as they meet: normalised and turned where the family does so, keys still in groups."""
    queries, keys = project_rows(x, layer.W_Q, layer.b_Q), project_rows(x, layer.W_K, layer.b_K)
    return arrange(queries, layer, "query"), arrange(keys, layer, "key")


def arrange(rows: Projected, layer: AttentionLayer, side: str, by: Projected | None = None) -> Projected:
    """Normalise and turn projected rows as the family does before they meet.

    Parameters
    ----------
    side
        ``"query"`` or ``"key"``.
    by
        The whole queries or keys of which ``rows`` are a part: the part is divided by the whole's norm, and gets
        nothing of a norm's bias. Parts so arranged add up to the whole but for that bias.
    """
    pair, rotary = layer.qk_norm, layer.positions if isinstance(layer.positions, Rotary) else None
    norm = getattr(pair, side) if pair else None
    if pair and not pair.after_rotation:
        rows = _normalise(rows, norm, pair, by)
    if rotary:
        rows = rotate(rows, rotary)
    if pair and pair.after_rotation:
        by = rotate(by, rotary) if rotary and by is not None else by
        rows = _normalise(rows, norm, pair, by)
    return rows


def meet(queries: Projected, keys: Grouped, layer: AttentionLayer) -> Scores:
    """Return scaled products of queries with the keys of their group, without what positions add."""
    keys = keys.repeat_interleave(layer.heads // layer.groups, dim=-3)
    return layer.scale * (queries @ keys.mT)


def added_by_positions(
    queries: Projected, keys: Grouped, layer: AttentionLayer
) -> Float[Tensor, "*any head query key"] | None:
    """Return what positions add to the scores beside turning queries and keys; ``None`` where that is nothing."""
    positions, n = layer.positions, queries.shape[-2]
    if isinstance(positions, Alibi):
        place = torch.arange(n, device=queries.device)
        return -alibi_slopes(positions).to(queries)[:, None, None] * (place[:, None] - place)
    if isinstance(positions, RelativeBuckets):
        return bucket_scores(positions, n, n)
    if isinstance(positions, ScoreTable):
        return positions.table
    if isinstance(positions, Disentangled):
        keys = keys.repeat_interleave(layer.heads // layer.groups, dim=-3)
        return layer.scale * disentangled_scores(queries, keys, positions)
    return None


@checked
def general_scores(
    x: Residual, layer: AttentionLayer, *, keep: Bool[Tensor, "*batch position"] | None = None
) -> Scores:
    """Return the scores of any layer after its soft cap, minus infinity where a query does not see a key.

    Parameters
    ----------
    x
        What the attention reads: after the norm, where the family has one before it.
    keep
        ``False`` where a key is padding; default: none is.

    Raises
    ------
    TypeError, ValueError
        If ``x`` or ``keep`` does not fit the layer.
    """
    queries, keys = queries_and_keys(x, layer)
    scores = meet(queries, keys, layer)
    added = added_by_positions(queries, keys, layer)
    if added is not None:
        scores = scores + added
    if layer.soft_cap is not None:
        scores = layer.soft_cap * torch.tanh(scores / layer.soft_cap)
    return scores.masked_fill(~_visible(layer.mask, x, keep), -torch.inf)


def softmax_with_sinks(scores: Scores, layer: AttentionLayer) -> Attention:
    """Turn scores into attention; rows sum to less than 1 where the layer has sinks.

    A query that sees no key (a padded one, on the left) has a row of nan.
    """
    if layer.sinks is None:
        return scores.softmax(-1)
    sink = layer.sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat([scores, sink], -1).softmax(-1)[..., :-1]


@checked
def attend_generally(
    x: Residual, layer: AttentionLayer, *, keep: Bool[Tensor, "*batch position"] | None = None
) -> Attended:
    r"""Run one attention layer of any family.

    Parameters
    ----------
    x
        What the attention reads: after the norm, where the family has one before it.
    keep
        ``False`` where a key is padding; default: none is. What comes out at padded queries means nothing.

    Returns
    -------
    Attended
        Scores, attention, the heads' updates, and their sum with ``b_O``, before any norm of the update.

    Examples
    --------
    One head that cannot tell keys apart returns running means:

    >>> eye, zero = torch.eye(2)[None], torch.zeros(1, 2)
    >>> layer = AttentionLayer(0 * eye, eye, eye, eye, zero, zero, zero, zero[0], 1.0,
    ...                        Mask(causal=True))
    >>> attend_generally(torch.tensor([[0.0, 4.0], [2.0, 0.0]]), layer).output
    tensor([[0., 4.],
            [1., 2.]])
    """
    scores = general_scores(x, layer, keep=keep)
    attention = softmax_with_sinks(scores, layer)
    values = project_rows(x, layer.W_V, layer.b_V).repeat_interleave(layer.heads // layer.groups, dim=-3)
    updates = einsum(attention @ values, layer.W_O, "... head query value, head value model -> ... head query model")
    return Attended(scores, attention, updates, updates.sum(-3) + layer.b_O)
