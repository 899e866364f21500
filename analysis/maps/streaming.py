r"""Statistics of attention maps gathered while a model runs, map by map, without keeping the maps.

``MapStatistics.attend`` is an attention layer that counts as it goes; its sums are whole numbers (fixed point), so that
they come out the same to the last bit in whatever order, and on however many processes, the texts are read.
What belongs here: sums over maps. What does not: the sums themselves (:mod:`analysis.statistics.exact_sums`), running
models (:mod:`analysis.models.attention_hooks`), reading gates (:mod:`analysis.maps.gates`).
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from analysis.core.checks import all_finite, check_tensor
from analysis.statistics.exact_sums import UNIT, Sums, add, fixed, refuse_overflow

Heads = Float[Tensor, "batch head position channel"]
TILE, MAPS = 2**24, 256  # a tile on a GPU: at most so many cells, and at most so many maps
ROWS = 256  # on the CPU a tile is so many rows of one head, which stay in its cache


class MapStatistics(Sums):
    r"""Entropy, diagonal profile, column and row mass of every head's maps, gathered while ``attend`` runs.

    Parameters
    ----------
    layers, heads
        Of the model.
    positions
        The longest sequence that will come.

    Raises
    ------
    ValueError
        If one of the three is not a positive whole number.

    Notes
    -----
    A map is made once, in one buffer: ``e = exp(s - max s)``, as a power of 2. Its entropy is
    :math:`\ln Z - \sum_k p_k s_k`, which needs no second logarithm. ``e`` lies in memory with room on its left; read
    with rows one longer, the same memory holds each diagonal in one column, so that the diagonal profile, like the
    column mass, is one product with ``1/Z``.

    Examples
    --------
    >>> statistics = MapStatistics(layers=1, heads=1, positions=4)
    >>> zero = torch.zeros(1, 1, 4, 2)
    >>> output = statistics.attend(0, zero, zero, zero, scale=1.0)
    >>> round(statistics.entropy().item(), 6), round(math.log(4), 6)
    (1.386294, 1.386294)
    """

    def __init__(self, layers: int, heads: int, positions: int, device: torch.device | str = "cpu"):
        """Start with nothing counted."""
        for name, number in (("layers", layers), ("heads", heads), ("positions", positions)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise ValueError(f"{name} must be a positive whole number, got {number!r}")
        self.positions = positions
        shape = (layers, heads)

        def zeros(*more: int) -> Tensor:
            return torch.zeros(*shape, *more, dtype=torch.long, device=device)

        with torch.inference_mode(False):
            self.state = {"entropy": zeros(positions), "row": zeros(positions), "column": zeros(positions),
                          "diagonal": zeros(2 * positions - 1),
                          "lengths": torch.zeros(layers, positions + 1, dtype=torch.long, device=device)}
        self._buffers: dict = {}

    def attend(self, layer: int, query: Heads, key: Heads, value: Heads, *, scale: float, causal: bool = False,
               lengths: Sequence[int] | None = None) -> Heads:
        """Compute attention as ``softmax(scale q k^T) v`` and count its maps on the way.

        Parameters
        ----------
        layer
            Which layer this is, from 0.
        scale
            Factor of the scores, usually ``1/sqrt(channel)``.
        causal
            Whether a query sees only keys up to its own position.
        lengths
            Number of real tokens of each sequence, padding on the right; ``None`` where nothing is padded. Padding is
            neither seen nor counted, and its output is 0.

        Returns
        -------
        Tensor
            The output, in the shape and dtype of ``value``.

        Raises
        ------
        ValueError
            If there are more positions or layers or other heads than were announced; if query, key and value, or the
            lengths, do not fit each other; if a gradient is asked for (call it under ``torch.no_grad()``); if the
            attention holds nan, as it does where a score is not finite.
        OverflowError
            If a sum grows beyond 2 billion.

        Notes
        -----
        In half precision, and under ``torch.autocast``, the maps are made, and their sums taken, in float32.
        """
        lengths = _check(query, key, value, scale, lengths)
        if torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value)):
            raise ValueError("attend counts in place and gives no gradient: run the model under torch.no_grad()")
        _, heads, n, _ = query.shape
        layers, own_heads, _ = self.state["entropy"].shape
        if n > self.positions or heads != own_heads or not 0 <= layer < layers:
            raise ValueError(f"layer, heads and positions must fit what was announced: below {layers}, exactly "
                             f"{own_heads}, at most {self.positions}; got {layer}, {heads} and {n}")
        dtype, (query, key, value) = value.dtype, _widen(query, key, value)
        output = torch.empty_like(value)
        with torch.autocast(query.device.type, enabled=False):  # it would take some of the products in half precision
            sums = []
            for alike in _together(lengths, query.device):
                length = lengths[alike[0]]
                parts = [part[alike, :, :length].flatten(0, 1) for part in (query, key, value)]
                message, statistics = self._attend(*parts, scale / math.log(2), causal=causal)
                try:
                    numbers = fixed(torch.cat(statistics, dim=-1)).unflatten(0, (len(alike), heads)).sum(0)
                except ValueError as error:
                    raise ValueError(f"query or key is not finite, or too large: {error}") from None
                sums.append((length, len(alike), numbers.split([part.shape[-1] for part in statistics], dim=-1)))
                output[alike, :, :length] = message.unflatten(0, (len(alike), heads))
                output[alike, :, length:] = 0
        for length, count, numbers in sums:  # only now: a batch is counted as a whole or not at all
            self._count(layer, length, count, numbers)
        return output.to(dtype)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bits: float, *,
                causal: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Attend in every map, tile by tile of maps and rows; return the output and the sums that are to be counted.

        A GPU adds in another order in tiles of another shape. There the last tile is filled up with maps that count
        nowhere, so that a sum's last bit depends on no other map.
        """
        maps, n, _ = query.shape
        few = query.device.type == "cpu"
        size, rows = (1, min(n, ROWS)) if few else (min(max(1, TILE // (n * n)), MAPS), n)
        if spare := -maps % size:
            query, key, value = (pad(part, (0, 0, 0, 0, 0, spare)) for part in (query, key, value))
        heads, output = len(query), torch.empty_like(value)
        total, inner = query.new_empty(heads, n, 1), query.new_empty(heads, n, 1)
        column, diagonal = query.new_zeros(heads, 1, n), query.new_zeros(heads, 1, 2 * n - 1)
        future = torch.ones(n, n, dtype=torch.bool, device=query.device).triu(1) if causal else None
        for start in range(0, heads, size):
            tile = slice(start, start + size)
            keys, values, columns, diagonals = key[tile].transpose(-1, -2), value[tile], column[tile], diagonal[tile]
            parts = (part[tile].split(rows, 1) for part in (query, total, inner, output))
            for i, (queries, sums, weighted, rows_out) in enumerate(zip(*parts, strict=True)):
                high = queries.shape[1]
                scores, exps, sheared = self._buffer(size, high, query)
                torch.baddbmm(scores, queries, keys, beta=0, alpha=bits, out=scores)
                if causal:
                    later = future[i * rows:i * rows + high]
                    scores.masked_fill_(later, -math.inf)
                scores -= scores.amax(-1, keepdim=True)
                torch.exp2(scores, out=exps)  # three times as fast as exp; the scores are in bits
                if causal:
                    scores.masked_fill_(later, 0)  # a later key weighs 0, and 0 times minus infinity is nan
                torch.sum(exps, -1, keepdim=True, out=sums)
                scores *= exps
                torch.sum(scores, -1, keepdim=True, out=weighted)
                share = sums.reciprocal()
                torch.bmm(exps, values, out=rows_out).mul_(share)
                share = share.transpose(-1, -2)
                columns += torch.bmm(share, exps)
                left = n - i * rows - high  # where these rows' diagonals begin among all
                diagonals[..., left:left + n + high - 1] += torch.bmm(share, sheared)[..., 1:-1]
        share = total.reciprocal()
        entropy = total.log() - math.log(2) * inner * share
        statistics = entropy[..., 0], (total * share)[..., 0], column[:, 0], diagonal[:, 0]
        return output[:maps], tuple(part[:maps] for part in statistics)

    def _count(self, layer: int, n: int, count: int, numbers: Sequence[Tensor]) -> None:
        self.state["lengths"][layer, n] += count
        overflows = []
        for name, more in zip(("entropy", "row", "column", "diagonal"), numbers, strict=True):
            start = self.positions - n if name == "diagonal" else 0
            overflows.append(add(self.state[name][layer, :, start:start + more.shape[-1]], more))
        refuse_overflow(*overflows)

    def _buffer(self, count: int, high: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, exponentials, and the latter's memory read with rows one longer: a column is a diagonal."""
        n = like.shape[-2]
        shape = (count, high, n, like.dtype, like.device)
        if shape not in self._buffers:
            if len(self._buffers) > 1:
                self._buffers.clear()
            with torch.inference_mode(False):  # else nothing could be written into them outside of that mode
                scores, memory = like.new_empty(count, high, n), like.new_zeros(count, high * (n + high + 1))
                exps = memory[:, :high * (n + high)].unflatten(-1, (high, n + high))[..., high:]
                self._buffers[shape] = scores, exps, memory.unflatten(-1, (high, n + high + 1))
        return self._buffers[shape]

    def sequences(self) -> Int[Tensor, " length"]:
        """Return how many sequences of each length were counted.

        Raises
        ------
        ValueError
            If the layers did not all read the same sequences: a run was interrupted, or a layer never ran.
        """
        lengths = self.state["lengths"]
        if not (lengths == lengths[0]).all():
            raise ValueError("the layers did not all see the same sequences; by layer, first to last, they saw "
                             f"{lengths.sum(1).tolist()}")
        return lengths[0]

    def entropy(self) -> Float[Tensor, "layer head"]:
        """Return the mean entropy of a row, in nats; nan where nothing was counted."""
        return self.state["entropy"].sum(-1).double() / UNIT / self._reaching().sum()

    def entropy_by_query(self) -> Float[Tensor, "layer head query"]:
        """Return the mean entropy at each position; nan where no sequence reached."""
        return self.state["entropy"].double() / UNIT / self._reaching()

    def row_mass(self) -> Float[Tensor, "layer head query"]:
        """Return the mean sum of the rows at each position: 1, up to rounding."""
        return self.state["row"].double() / UNIT / self._reaching()

    def column_mass(self) -> Float[Tensor, "layer head key"]:
        """Return what a key at each position gets from all queries together, a mean over sequences that have it."""
        return self.state["column"].double() / UNIT / self._reaching()

    def diagonal_profile(self) -> Float[Tensor, "layer head offset"]:
        """Return the mean weight at each ``key - query`` (index ``positions - 1 + offset``), over cells that exist."""
        lengths = torch.arange(self.positions + 1, device=self.state["lengths"].device)
        offsets = torch.arange(2 * self.positions - 1, device=lengths.device) - self.positions + 1
        cells = (self.sequences()[:, None] * (lengths[:, None] - offsets.abs()).clamp_min(0)).sum(0)
        return self.state["diagonal"].double() / UNIT / cells

    def _reaching(self) -> Float[Tensor, " position"]:
        """Return how many sequences reach each position."""
        return self.sequences().flip(0).cumsum(0).flip(0)[1:].double()


def _check(query: Heads, key: Heads, value: Heads, scale: float, lengths: Sequence[int] | None) -> Sequence[int]:
    """Refuse what is not the attention of one layer, before anything is computed; return every sequence's length."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(name, tensor)
    shape = tuple(query.shape)
    if query.ndim != 4 or not query.numel() or tuple(key.shape) != shape or tuple(value.shape[:3]) != shape[:3]:
        raise ValueError("query, key and value must be (batch, head, position, channel) and of one batch, as many "
                         f"heads and positions; got {shape}, {tuple(key.shape)} and {tuple(value.shape)}")
    if not (query.is_floating_point() and query.dtype == key.dtype == value.dtype):
        raise ValueError(f"query, key and value must be of one floating dtype, got {query.dtype}, {key.dtype} and "
                         f"{value.dtype}")
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, got {scale}")
    if lengths is None:
        return [shape[2]] * shape[0]
    if len(lengths) != shape[0] or not all(1 <= length <= shape[2] and length == int(length) for length in lengths):
        raise ValueError(f"lengths must be {shape[0]} whole numbers from 1 to {shape[2]}, one per sequence; "
                         f"got {[*lengths]}")
    return [int(length) for length in lengths]


def _together(lengths: Sequence[int], device: torch.device) -> list[list[int]]:
    """Part a batch into sequences that are read together: on a GPU those of one length.

    On the CPU each is read alone: nothing is faster there together, and copies of a whole batch take memory.
    """
    if device.type == "cpu":
        return [[b] for b in range(len(lengths))]
    return [[b for b, other in enumerate(lengths) if other == length] for length in sorted(set(lengths))]


def _widen(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Turn half precision into float32, in which sums over hundreds of keys keep their digits."""
    return tuple(tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float() for tensor in tensors)


def visit_maps(visit: Callable[[int, Tensor], None]) -> Callable[..., Tensor]:
    """Make an attention layer that shows each layer's maps ``(batch, head, query, key)`` to ``visit`` and drops them.

    Sequences are shown one by one where some are padded, cut to their length. The arguments of what is returned are
    those of ``MapStatistics.attend``, and so are its refusals, save that gradients are given.

    >>> attend = visit_maps(lambda layer,
    ...                     attention: print(layer, attention[0, 0, 1].tolist()))
    >>> zero = torch.zeros(1, 1, 2, 2)
    >>> output = attend(3, zero, zero, zero, scale=1.0, causal=True)
    3 [0.5, 0.5]
    """
    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, causal: bool = False,
               lengths: Sequence[int] | None = None) -> Tensor:
        alone = _check(query, key, value, scale, lengths)
        dtype, (query, key, value) = value.dtype, _widen(query, key, value)
        output = torch.zeros_like(value)
        pieces = [(slice(None), query.shape[-2])] if lengths is None else [
            (slice(b, b + 1), length) for b, length in enumerate(alone)]
        for rows, n in pieces:
            with torch.autocast(query.device.type, enabled=False):
                scores = query[rows, :, :n] @ key[rows, :, :n].transpose(-1, -2) * scale
                if causal:
                    scores = scores.masked_fill(scores.new_ones(n, n).triu(1).bool(), -math.inf)
                attention = scores.softmax(-1)
                message = attention @ value[rows, :, :n]
            if not all_finite(attention):
                raise ValueError(f"the attention of layer {layer} holds nan: a query or key is not finite, or too "
                                 f"large for {dtype}")
            visit(layer, attention)
            output[rows, :, :n] = message
        return output.to(dtype)

    return attend
