r"""Statistics of attention maps gathered while a model runs, map by map, without keeping the maps.

``MapStatistics.attend`` is an attention layer that counts as it goes, and ``add`` counts maps that are there. The sums
are whole numbers (fixed point), so that they come out the same to the last bit in whatever order, and on however many
processes, the texts are read.
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.checks import all_finite, check_real, check_tensor
from analysis.maps.tiles import Tiles
from analysis.statistics.exact_sums import UNIT, Sums, add, fixed, refuse_overflow

Heads = Float[Tensor, "batch head position channel"]


class MapStatistics(Sums):
    r"""Entropy, diagonal profile, column and row mass of every head's maps, gathered while ``attend`` runs.

    Parameters
    ----------
    positions
        The longest sequence that will come.

    Raises
    ------
    ValueError
        If one of the three is not a positive whole number.

    Examples
    --------
    >>> statistics = MapStatistics(layers=1, heads=1, positions=4)
    >>> zero = torch.zeros(1, 1, 4, 2)
    >>> output = statistics.attend(0, zero, zero, zero, scale=1.0)
    >>> round(statistics.entropy().item(), 4), round(math.log(4), 4)
    (1.3863, 1.3863)
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
            self.state = {
                "entropy": zeros(positions),
                "row": zeros(positions),
                "column": zeros(positions),
                "diagonal": zeros(2 * positions - 1),
                "lengths": torch.zeros(layers, positions + 1, dtype=torch.long, device=device),
            }
        self._tiles = Tiles()

    def attend(
        self,
        layer: int,
        query: Heads,
        key: Heads,
        value: Heads,
        *,
        scale: float,
        causal: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> Heads:
        """Compute attention as ``softmax(scale q k^T) v`` and count its maps on the way.

        Parameters
        ----------
        causal
            Whether a query sees only keys up to its own position.
        lengths
            Number of real tokens of each sequence, padding on the right; ``None`` where nothing is padded. Padding is
            neither seen nor counted, and its output is 0.

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
        self._check_fit(layer, heads, n)
        dtype, (query, key, value) = value.dtype, _widen(query, key, value)
        output = torch.empty_like(value)
        with torch.autocast(query.device.type, enabled=False):  # it would take some of the products in half precision
            sums = []
            # Texts of one length go through the tiles together; padding is left out.
            for alike in _together(lengths, query.device):
                length = lengths[alike[0]]
                own, seen, carried = (part[alike, :, :length].flatten(0, 1) for part in (query, key, value))
                message, statistics = self._tiles(own, seen, carried, scale, causal=causal)
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

    def add(self, layer: int, attention: Float[Tensor, "head query key"]) -> None:
        """Count the maps of one layer on one text, however they were made; with sinks rows may sum to less than 1.

        Raises
        ------
        OverflowError, TypeError, ValueError
            As `attend`.

        Examples
        --------
        >>> statistics = MapStatistics(layers=1, heads=1, positions=4)
        >>> statistics.add(0, torch.eye(4)[None])
        >>> statistics.diagonal_profile()[0, 0].tolist()
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
        """
        check_real("attention", attention, "head", "query", "key")
        n = attention.shape[-1]
        if attention.ndim != 3 or attention.shape[-2] != n:
            raise ValueError(
                f"attention must be (head, query, key), as many queries as keys, got {tuple(attention.shape)}"
            )
        self._check_fit(layer, attention.shape[0], n)
        lines = torch.stack([attention.diagonal(offset, -2, -1).sum(-1) for offset in range(1 - n, n)], -1)
        parts = torch.special.entr(attention).sum(-1), attention.sum(-1), attention.sum(-2), lines
        self._count(layer, n, 1, [fixed(part) for part in parts])

    def _check_fit(self, layer: int, heads: int, n: int) -> None:
        layers, own_heads, _ = self.state["entropy"].shape
        if n > self.positions or heads != own_heads or not 0 <= layer < layers:
            raise ValueError(
                f"layer, heads and positions must fit what was announced: below {layers}, exactly "
                f"{own_heads}, at most {self.positions}; got {layer}, {heads} and {n}"
            )

    def _count(self, layer: int, n: int, count: int, numbers: Sequence[Tensor]) -> None:
        self.state["lengths"][layer, n] += count
        overflows = []
        for name, more in zip(("entropy", "row", "column", "diagonal"), numbers, strict=True):
            start = self.positions - n if name == "diagonal" else 0
            overflows.append(add(self.state[name][layer, :, start : start + more.shape[-1]], more))
        refuse_overflow(*overflows)

    def sequences(self) -> Int[Tensor, " length"]:
        """Return how many sequences of each length were counted.

        Raises
        ------
        ValueError
            If the layers did not all read the same sequences: a run was interrupted, or a layer never ran.
        """
        lengths = self.state["lengths"]
        if not (lengths == lengths[0]).all():
            raise ValueError(
                "the layers did not all see the same sequences; by layer, first to last, they saw "
                f"{lengths.sum(1).tolist()}"
            )
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
    """Raise for what is not the attention of one layer, before anything is computed; return every sequence's length."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(name, tensor)
    shape = tuple(query.shape)
    if query.ndim != 4 or not query.numel() or tuple(key.shape) != shape or tuple(value.shape[:3]) != shape[:3]:
        raise ValueError(
            "query, key and value must be (batch, head, position, channel) and of one batch, as many "
            f"heads and positions; got {shape}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if not (query.is_floating_point() and query.dtype == key.dtype == value.dtype):
        raise ValueError(
            f"query, key and value must be of one floating dtype, got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, got {scale}")
    if lengths is None:
        return [shape[2]] * shape[0]
    if len(lengths) != shape[0] or not all(1 <= length <= shape[2] and length == int(length) for length in lengths):
        raise ValueError(
            f"lengths must be {shape[0]} whole numbers from 1 to {shape[2]}, one per sequence; got {[*lengths]}"
        )
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

    def attend(
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        causal: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> Tensor:
        alone = _check(query, key, value, scale, lengths)
        dtype, (query, key, value) = value.dtype, _widen(query, key, value)
        output = torch.zeros_like(value)
        # Padded texts are computed one by one, without their padding.
        pieces = (
            [(slice(None), query.shape[-2])]
            if lengths is None
            else [(slice(b, b + 1), length) for b, length in enumerate(alone)]
        )
        for rows, n in pieces:
            with torch.autocast(query.device.type, enabled=False):
                scores = query[rows, :, :n] @ key[rows, :, :n].transpose(-1, -2) * scale
                if causal:
                    scores = scores.masked_fill(scores.new_ones(n, n).triu(1).bool(), -math.inf)
                attention = scores.softmax(-1)
                message = attention @ value[rows, :, :n]
            if not all_finite(attention):
                raise ValueError(
                    f"the attention of layer {layer} holds nan: a query or key is not finite, or too large for {dtype}"
                )
            visit(layer, attention)
            output[rows, :, :n] = message
        return output.to(dtype)

    return attend
