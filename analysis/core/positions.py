"""How an attention layer knows positions, as plain data: nothing, rotations, slopes, buckets, tables."""

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from analysis.core.checks import all_finite
from analysis.core.shapes import say_shapes

PAIRINGS = ("halves", "neighbours")
"""Which two of ``r`` rotated coordinates make a pair: ``f`` and ``f + r/2``, or ``2f`` and ``2f + 1``."""


@dataclass(frozen=True)
class StreamPositions:
    """Positions, if there are any, are in the rows that the layer reads; the scores add nothing of their own."""

    kind: str
    """``"learned"``, ``"sinusoidal"``, ``"convolution"`` or ``"none"``."""


@dataclass(frozen=True)
class Rotary:
    """Queries and keys are turned, pair by pair, by angles proportional to their position.

    Attributes
    ----------
    frequencies
        Radians per position, one for each pair. The model computes them in float32; these are its numbers.
    channel
        The head's width; the first ``2 * len(frequencies)`` coordinates are turned, the others are left as they are.
    pairing
        One of :data:`PAIRINGS`.
    base
        Of the frequencies ``base ** (-2 f / r)`` before any scaling.
    scaling
        How they were changed for longer texts: ``"default"`` (not at all), ``"linear"``, ``"yarn"``, ``"llama3"``, ...
    attention_factor
        What cosine and sine are multiplied by (YaRN): rotated terms of a score carry its square.
    longest
        Of texts with more positions than these the model turns by other frequencies; ``None``: of none.

    Raises
    ------
    ValueError
        If more coordinates are turned than there are, the pairing is unknown, or a number is not finite.
    """

    kind: ClassVar[str] = "rotary"

    frequencies: Float[Tensor, " pair"]
    channel: int
    pairing: str = "halves"
    base: float = 10000.0
    scaling: str = "default"
    attention_factor: float = 1.0
    longest: int | None = None

    __repr__ = say_shapes

    def __post_init__(self):
        if self.pairing not in PAIRINGS:
            raise ValueError(f"pairing must be one of {', '.join(PAIRINGS)}, got {self.pairing!r}")
        if self.frequencies.ndim != 1 or self.coordinates > self.channel:
            raise ValueError(
                f"frequencies must be (pair,), at most {self.channel // 2} of them for heads of width "
                f"{self.channel}, got shape {tuple(self.frequencies.shape)}"
            )
        if not all_finite(self.frequencies) or not math.isfinite(self.attention_factor):
            raise ValueError(
                "frequencies and attention_factor must be finite, got "
                f"{self.frequencies.tolist()[:4]} and {self.attention_factor}"
            )

    @property
    def coordinates(self) -> int:
        """How many coordinates of a head are turned."""
        return 2 * len(self.frequencies)


@dataclass(frozen=True)
class Tempered:
    """Queries grow with their place, step by step, so that attention stays sharp in long texts (Llama 4).

    The query at place ``i``, counted from 0, is multiplied by ``1 + strength * log(1 + (i + 1) // every)``.

    Attributes
    ----------
    every
        How many places a step has: the first grows nothing.
    strength
        How much they grow.
    """

    kind: ClassVar[str] = "temperature"

    every: float
    strength: float


@dataclass(frozen=True)
class Alibi:
    """A straight line over distance is added to the scores: ``-slope * distance``, a slope fixed for each head.

    The slopes are :func:`analysis.transformer.position_scores.alibi_slopes`.

    Attributes
    ----------
    heads
        How many slopes there are.
    exponent
        The flattest of a power of two of heads is ``2 ** -exponent``.
    """

    kind: ClassVar[str] = "ALiBi"

    heads: int
    exponent: float = 8.0


@dataclass(frozen=True)
class RelativeBuckets:
    """A learned number for each bucket of distances is added to the scores, as in T5.

    Attributes
    ----------
    table
        ``(bucket, head)``.
    longest
        From this distance on all lie in the last bucket.
    two_sided
        Whether later keys have buckets of their own, half of them.
    """

    kind: ClassVar[str] = "buckets"

    table: Float[Tensor, "bucket head"]
    longest: int
    two_sided: bool


@dataclass(frozen=True)
class ScoreTable:
    """A learned number for each pair of places is added to the scores, for inputs of one size (BEiT)."""

    kind: ClassVar[str] = "table"

    table: Float[Tensor, "head query key"]


@dataclass(frozen=True)
class Disentangled:
    r"""Queries meet a row for each distance, and keys another (DeBERTa): ``q_i K_r(i-j) + Q_r(i-j) k_j``, scaled.

    Attributes
    ----------
    keys, queries
        ``(head, row, channel)``: what queries meet, and what keys meet; ``None`` where the model leaves that part out.
    span
        Row ``r`` stands for the (bucketed) distance ``r - span``.
    buckets
        Distances beyond half of this are put into buckets that grow with them; ``None``: every distance has its own.
    longest
        The distance at which the last bucket ends.
    """

    kind: ClassVar[str] = "disentangled"

    keys: Float[Tensor, "head row channel"] | None
    queries: Float[Tensor, "head row channel"] | None
    span: int
    buckets: int | None
    longest: int


Positions = StreamPositions | Rotary | Tempered | Alibi | RelativeBuckets | ScoreTable | Disentangled


def moved(positions: Positions, *args, **kwargs) -> Positions:
    """Return a copy with every tensor passed through ``Tensor.to``.

    >>> import torch
    >>> moved(Rotary(torch.ones(2), 4), torch.float64).frequencies
    tensor([1., 1.], dtype=torch.float64)
    """
    tensors = {
        field.name: value.to(*args, **kwargs)
        for field in fields(positions)
        if isinstance(value := getattr(positions, field.name), Tensor)
    }
    return replace(positions, **tensors)
