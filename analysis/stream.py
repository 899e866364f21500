r"""Statistics of attention maps gathered while a model runs, map by map, without keeping the maps.

``MapStatistics.attend`` is an attention layer that counts as it goes; its sums are whole numbers (fixed point), so that
they come out the same to the last bit in whatever order, and on however many processes, the texts are read.
What belongs here: sums over maps. What does not: running models (``analysis.capture``), reading gates (``gates``).
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Heads = Float[Tensor, "batch head position channel"]
UNIT = 2.0**32
"""One in fixed point: sums are multiples of ``1/UNIT``, exact up to 2 billion."""
TILE = 2**24  # cells of a tile on a GPU
ROWS = 256  # on the CPU a tile is so many rows of one head, which stay in its cache
FAR = -1e4  # added to the scores of keys that a query may not see: their weight is 0 exactly


def fixed(values: Tensor) -> Int[Tensor, "..."]:
    """Turn numbers into fixed point.

    >>> fixed(torch.tensor([0.5])).item() / UNIT
    0.5
    """
    return (values.double() * UNIT).round().long()


class Sums:
    """Named whole-number sums that can be merged in any order, and across processes. Subclasses fill them.

    ``state`` maps names to int64 tensors; nothing else is carried.
    """

    state: dict[str, Tensor]

    def merge(self, other: "Sums") -> "Sums":
        """Add another's sums to these; both must be of one shape."""
        for name, total in self.state.items():
            if name not in other.state or other.state[name].shape != total.shape:
                raise ValueError(f"cannot merge: {name} has shape {tuple(total.shape)} here and "
                                 f"{tuple(other.state[name].shape) if name in other.state else 'is absent'} there")
            total.add_(other.state[name].to(total.device))
        return self

    def all_reduce(self) -> "Sums":
        """Add the sums of all processes of ``torch.distributed``; without a process group nothing happens."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            for total in self.state.values():
                dist.all_reduce(total)
        return self


class Moments(Sums):
    """Count, sum and sum of squares of equal-shaped tensors: mean and spread over texts.

    >>> moments = Moments((2,))
    >>> moments.add(torch.tensor([1.0, 2.0]))
    >>> moments.add(torch.tensor([3.0, 2.0]))
    >>> moments.mean().tolist(), moments.deviation().tolist()
    ([2.0, 2.0], [1.4142135623730951, 0.0])
    """

    def __init__(self, shape: Sequence[int], device: torch.device | str = "cpu"):
        """Start with nothing counted."""
        self.state = {"count": torch.zeros((), dtype=torch.long, device=device),
                      "sum": torch.zeros(*shape, dtype=torch.long, device=device),
                      "square": torch.zeros(*shape, dtype=torch.long, device=device)}

    def add(self, values: Tensor) -> None:
        """Count one more tensor."""
        self.state["count"] += 1
        self.state["sum"] += fixed(values)
        self.state["square"] += fixed(values.double().square())

    def mean(self) -> Tensor:
        """Return the mean of what was added."""
        return self.state["sum"].double() / UNIT / self._some()

    def deviation(self) -> Tensor:
        """Return the standard deviation (n - 1) of what was added; nan for fewer than two."""
        count = self._some()
        spread = (self.state["square"].double() / UNIT - count * self.mean().square()) / (count - 1)
        return spread.clamp_min(0).sqrt()

    def _some(self) -> Tensor:
        if self.state["count"] == 0:
            raise ValueError("nothing was added yet: there is no mean of nothing")
        return self.state["count"].double()


class MapStatistics(Sums):
    r"""Entropy, diagonal profile, column and row mass of every head's maps, gathered while ``attend`` runs.

    Parameters
    ----------
    layers, heads
        Of the model.
    positions
        The longest sequence that will come.

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
        self.positions = positions
        shape = (layers, heads)

        def zeros(*more: int) -> Tensor:
            return torch.zeros(*shape, *more, dtype=torch.long, device=device)

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

        Raises
        ------
        ValueError
            If there are more positions than were announced, or not as many keys as queries.
        """
        batch, _, n, _ = query.shape
        if key.shape[-2] != n or n > self.positions:
            raise ValueError(f"query and key must have the same number of positions, at most {self.positions}; "
                             f"got {n} and {key.shape[-2]}")
        output = torch.zeros_like(value) if lengths is not None else torch.empty_like(value)
        query = query * (scale / math.log(2))
        for b, length in enumerate(lengths if lengths is not None else [n] * batch):
            parts = [part[b, :, :length] for part in (query, key, value, output)]
            self._count(layer, length, *self._attend(*parts, causal=causal))
        return output

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor, *, causal: bool) -> tuple[Tensor, ...]:
        """Attend within one sequence, tile by tile of heads and rows; return the sums that are to be counted."""
        heads, n, _ = query.shape
        few = query.device.type == "cpu"
        size, rows = (1, min(n, ROWS)) if few else (max(1, TILE // (n * n)), n)
        total, inner = query.new_empty(heads, n, 1), query.new_empty(heads, n, 1)
        column, diagonal = query.new_zeros(heads, 1, n), query.new_zeros(heads, 1, 2 * n - 1)
        future = query.new_full((n, n), FAR).triu(1) if causal else None
        for start in range(0, heads, size):
            tile = slice(start, min(start + size, heads))
            keys, values = key[tile].transpose(-1, -2), value[tile]
            for first in range(0, n, rows):
                part = slice(first, min(first + rows, n))
                high = part.stop - first
                scores, exps, sheared = self._buffer(tile.stop - start, high, query)
                torch.bmm(query[tile, part], keys, out=scores)
                if causal:
                    scores += future[part]
                scores -= scores.amax(-1, keepdim=True)
                torch.exp2(scores, out=exps)  # three times as fast as exp; the scores are in bits
                torch.sum(exps, -1, keepdim=True, out=total[tile, part])
                scores *= exps
                torch.sum(scores, -1, keepdim=True, out=inner[tile, part])
                share = total[tile, part].reciprocal()
                torch.bmm(exps, values, out=output[tile, part]).mul_(share)
                share = share.transpose(-1, -2)
                column[tile] += torch.bmm(share, exps)
                left = n - part.stop  # where these rows' diagonals begin among all
                diagonal[tile, :, left:left + n + high - 1] += torch.bmm(share, sheared)[..., 1:-1]
        share = total.reciprocal()
        entropy = total.log() - math.log(2) * inner * share
        return entropy[..., 0], (total * share)[..., 0], column[:, 0], diagonal[:, 0]

    def _count(self, layer: int, n: int, *sums: Tensor) -> None:
        self.state["lengths"][layer, n] += 1
        for name, total in zip(("entropy", "row", "column", "diagonal"), sums, strict=True):
            start = self.positions - n if name == "diagonal" else 0
            self.state[name][layer, :, start:start + total.shape[-1]] += fixed(total)

    def _buffer(self, count: int, high: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, exponentials, and the latter's memory read with rows one longer: a column is a diagonal."""
        n = like.shape[-2]
        shape = (count, high, n, like.dtype, like.device)
        if shape not in self._buffers:
            if len(self._buffers) > 1:
                self._buffers.clear()
            scores, memory = like.new_empty(count, high, n), like.new_zeros(count, high * (n + high + 1))
            exps = memory[:, :high * (n + high)].unflatten(-1, (high, n + high))[..., high:]
            self._buffers[shape] = scores, exps, memory.unflatten(-1, (high, n + high + 1))
        return self._buffers[shape]

    def sequences(self) -> Int[Tensor, " length"]:
        """Return how many sequences of each length were counted."""
        return self.state["lengths"][0]

    def entropy(self) -> Float[Tensor, "layer head"]:
        """Return the mean entropy of a row, in nats."""
        return self.state["entropy"].sum(-1).double() / UNIT / (self._seen().sum()).clamp_min(1)

    def entropy_by_query(self) -> Float[Tensor, "layer head query"]:
        """Return the mean entropy at each position; nan where no sequence reached."""
        return self.state["entropy"].double() / UNIT / self._seen()

    def row_mass(self) -> Float[Tensor, "layer head query"]:
        """Return the mean sum of the rows at each position: 1, up to rounding."""
        return self.state["row"].double() / UNIT / self._seen()

    def column_mass(self) -> Float[Tensor, "layer head key"]:
        """Return what a key at each position gets from all queries together, a mean over sequences that have it."""
        return self.state["column"].double() / UNIT / self._seen()

    def diagonal_profile(self) -> Float[Tensor, "layer head offset"]:
        """Return the mean weight at each ``key - query`` (index ``positions - 1 + offset``), over cells that exist."""
        lengths = torch.arange(self.positions + 1, device=self.sequences().device)
        offsets = torch.arange(2 * self.positions - 1, device=lengths.device) - self.positions + 1
        cells = (self.sequences()[:, None] * (lengths[:, None] - offsets.abs()).clamp_min(0)).sum(0)
        return self.state["diagonal"].double() / UNIT / cells

    def _seen(self) -> Tensor:
        reached = self.sequences().flip(0).cumsum(0).flip(0)
        return reached[1:].double()


def visit_maps(visit: Callable[[int, Tensor], None]) -> Callable[..., Tensor]:
    """Make an attention layer that shows each layer's maps ``(batch, head, query, key)`` to ``visit`` and drops them.

    Sequences are shown one by one where some are padded, cut to their length. The arguments of what is returned are
    those of ``MapStatistics.attend``.

    >>> attend = visit_maps(lambda layer, attention: print(layer, attention[0, 0, 1].tolist()))
    >>> zero = torch.zeros(1, 1, 2, 2)
    >>> output = attend(3, zero, zero, zero, scale=1.0, causal=True)
    3 [0.5, 0.5]
    """
    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, causal: bool = False,
               lengths: Sequence[int] | None = None) -> Tensor:
        output = torch.zeros_like(value)
        pieces = [(slice(None), query.shape[-2])] if lengths is None else [
            (slice(b, b + 1), length) for b, length in enumerate(lengths)]
        for rows, n in pieces:
            scores = query[rows, :, :n] @ key[rows, :, :n].transpose(-1, -2) * scale
            if causal:
                scores = scores.masked_fill(scores.new_ones(n, n).triu(1).bool(), -math.inf)
            attention = scores.softmax(-1)
            visit(layer, attention)
            output[rows, :, :n] = attention @ value[rows, :, :n]
        return output

    return attend
