r"""Attention tile by tile, with what is counted of its maps, of which none is kept.

A map is made once, in one buffer: ``e = exp(s - max s)``, as a power of 2. Its entropy is
:math:`\ln Z - \sum_k p_k s_k`, which needs no second logarithm. ``e`` lies in memory with room on its left; read with
rows one longer, the same memory holds each diagonal in one column, so that the diagonal profile, like the column mass,
is one product with ``1/Z``.

A GPU adds in another order in tiles of another shape. There the last tile is filled up with maps that count nowhere, so
that a sum's last bit depends on no other map.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

Rows = Float[Tensor, "map position channel"]
TILE, MAPS, BLOCK = 2**24, 256, 512  # a tile on a GPU: so many cells, maps and rows at most
ROWS = 256  # on the CPU a tile is so many rows of one map, which stay in its cache


class MapSums(NamedTuple):
    """What is counted of each map: the entropy of its rows, in nats, and the sums of rows, columns and diagonals.

    Diagonals go from offset (key minus query) ``1 - position`` to ``position - 1``.
    """

    entropy: Float[Tensor, "map query"]
    row: Float[Tensor, "map query"]
    column: Float[Tensor, "map key"]
    diagonal: Float[Tensor, "map offset"]


class Tiles:
    """Attends, in memory that is kept from one call to the next."""

    def __init__(self):
        """Start without memory."""
        self._buffers: dict = {}

    def __call__(
        self, query: Rows, key: Rows, value: Rows, scale: float, *, causal: bool = False
    ) -> tuple[Rows, MapSums]:
        """Compute ``softmax(scale q k^T) v`` of each map, and what is counted of it.

        ``key`` has the shape of ``query``, ``value`` may have other channels. All are float32 or float64 and on one
        device. Where a score is not finite, neither are the sums, and who counts them notices.

        Examples
        --------
        >>> zero = torch.zeros(1, 4, 2)
        >>> _, sums = Tiles()(zero, zero, zero, scale=1.0)
        >>> sums.row.tolist(), sums.diagonal[0].tolist()
        ([[1.0, 1.0, 1.0, 1.0]], [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25])
        """
        # Tiles of a few maps and rows, so that scores stay in the cache (or fill a GPU); maps fill up whole tiles.
        (maps, n, _), bits = query.shape, scale / math.log(2)
        rows = min(n, ROWS if query.device.type == "cpu" else BLOCK)
        size = 1 if query.device.type == "cpu" else min(max(1, TILE // (rows * n)), MAPS)
        if spare := -maps % size:
            query, key, value = (pad(part, (0, 0, 0, 0, 0, spare)) for part in (query, key, value))
        filled, output = len(query), torch.empty_like(value)
        total, inner = query.new_empty(filled, n, 1), query.new_empty(filled, n, 1)
        column, diagonal = query.new_zeros(filled, 1, n), query.new_zeros(filled, 1, 2 * n - 1)
        future = torch.ones(n, n, dtype=torch.bool, device=query.device).triu(1) if causal else None
        for start in range(0, filled, size):
            tile = slice(start, start + size)
            keys, values, columns, diagonals = key[tile].transpose(-1, -2), value[tile], column[tile], diagonal[tile]
            parts = (part[tile].split(rows, 1) for part in (query, total, inner, output))
            for i, (queries, sums, weighted, rows_out) in enumerate(zip(*parts, strict=True)):
                # Scores of these rows, as powers of two, with later keys hidden.
                high = queries.shape[1]
                scores, exps, sheared = self._buffer(size, high, query)
                torch.baddbmm(scores, queries, keys, beta=0, alpha=bits, out=scores)
                later = None if future is None else future[i * rows : i * rows + high]
                if later is not None:
                    scores.masked_fill_(later, -math.inf)
                # The softmax, not yet divided by its sum; the entropy needs sum(s e^s) beside it.
                scores -= scores.amax(-1, keepdim=True)
                torch.exp2(scores, out=exps)  # three times as fast as exp; the scores are in bits
                if later is not None:
                    scores.masked_fill_(later, 0)  # a later key weighs 0, and 0 times minus infinity is nan
                torch.sum(exps, -1, keepdim=True, out=sums)
                scores *= exps
                torch.sum(scores, -1, keepdim=True, out=weighted)
                # What the rows write, and what columns and diagonals receive.
                share = sums.reciprocal()
                torch.bmm(exps, values, out=rows_out).mul_(share)
                share = share.transpose(-1, -2)
                columns += torch.bmm(share, exps)
                left = n - i * rows - high  # where these rows' diagonals begin among all
                diagonals[..., left : left + n + high - 1] += torch.bmm(share, sheared)[..., 1:-1]
        share = total.reciprocal()
        entropy = total.log() - math.log(2) * inner * share
        statistics = entropy[..., 0], (total * share)[..., 0], column[:, 0], diagonal[:, 0]
        return output[:maps], MapSums(*(part[:maps] for part in statistics))

    def _buffer(self, count: int, high: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, exponentials, and the latter's memory read with rows one longer: a column is a diagonal."""
        n = like.shape[-2]
        shape = (count, high, n, like.dtype, like.device)
        if shape not in self._buffers:
            if len(self._buffers) > 1:
                self._buffers.clear()
            with torch.inference_mode(False):  # else nothing could be written into them outside of that mode
                scores, memory = like.new_empty(count, high, n), like.new_zeros(count, high * (n + high + 1))
                exps = memory[:, : high * (n + high)].unflatten(-1, (high, n + high))[..., high:]
                self._buffers[shape] = scores, exps, memory.unflatten(-1, (high, n + high + 1))
        return self._buffers[shape]
