"""One attention layer of any family as plain tensors: grouped queries, positions, norms, sinks, soft cap, mask.

A plain layer, the case that most chapters are about, is made of its eight tensors alone: as many keys as queries, a
scale of ``1 / sqrt(channel)``, nothing else inside the attention.
"""

import math
from dataclasses import dataclass, fields, replace

from jaxtyping import Float
from torch import Tensor

from analysis.core.frozen import Frozen
from analysis.core.positions import Positions, Rotary, StreamPositions, moved
from analysis.core.shapes import say_shapes

NOWHERE = StreamPositions("none")
PLACES = ("input", "update", "sum")
"""Where a norm is applied: to what the layer reads, to what it writes, or to the stream after the sum of both."""
KINDS = ("layer", "rms", "l2", "affine")
"""How a norm scales a row: minus its mean and by its deviation, by its root mean square, by that without weights, or
not at all."""


@dataclass(frozen=True)
class Norm(Frozen):
    """A norm of rows; by default a LayerNorm: ``(y - mean) / sqrt(var + eps) * gain + bias``.

    Attributes
    ----------
    gain, bias
        ``(model,)``, as wide as the rows, as they are multiplied and added (Gemma's ``1 + w`` is carried out).
    eps
        What is added to the mean square of a row before the root.
    kind
        One of :data:`KINDS`.
    place
        One of :data:`PLACES`.
    has_bias
        Whether the model has a bias; it is zero here where it has none.

    Raises
    ------
    ValueError
        If gain and bias are not two vectors of one length, or an entry is not finite.
    """

    noun = "the norm"

    gain: Float[Tensor, " model"]
    bias: Float[Tensor, " model"]
    eps: float = 1e-5
    kind: str = "layer"
    place: str = "input"
    has_bias: bool = True

    __repr__ = say_shapes

    def __post_init__(self):
        if self.kind not in KINDS or self.place not in PLACES:
            raise ValueError(
                f"kind must be one of {', '.join(KINDS)} and place one of {', '.join(PLACES)}, got "
                f"{self.kind!r} and {self.place!r}"
            )
        if self.gain.ndim != 1 or self.gain.shape != self.bias.shape:
            raise ValueError(
                f"gain and bias must be (model,), got {tuple(self.gain.shape)} and {tuple(self.bias.shape)}"
            )
        if not 0 <= self.eps < math.inf:
            raise ValueError(f"eps must be finite and not negative, got {self.eps}")
        super().__post_init__()


@dataclass(frozen=True)
class QueryKeyNorm:
    """A norm of queries and one of keys, before or after they are turned.

    ``whole``: over all heads together (OLMo 2); else over each head.
    """

    query: Norm
    key: Norm
    whole: bool = False
    after_rotation: bool = False

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to``."""
        return replace(self, query=self.query.to(*args, **kwargs), key=self.key.to(*args, **kwargs))


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees, padding apart.

    Attributes
    ----------
    causal
        Only itself and earlier ones (GPT-2), or later ones too (BERT).
    reach
        Only those at most so far away; ``None``: at any distance.
    chunk
        Only those of its own block of so many positions; ``None``: no blocks.
    """

    causal: bool = False
    reach: int | None = None
    chunk: int | None = None


@dataclass(frozen=True)
class AttentionLayer(Frozen):
    r"""One attention layer: ``x W_Q + b_Q`` and so on, head by head; ``heads / groups`` queries share a key.

    Query head ``h`` meets the keys and values of group ``h * groups // heads``.

    Attributes
    ----------
    W_Q, b_Q
        ``(head, model, channel)`` and ``(head, channel)``.
    W_K, b_K
        ``(group, model, channel)`` and ``(group, channel)``.
    W_V, b_V
        ``(group, model, value)`` and ``(group, value)``.
    W_O, b_O
        ``(head, value, model)`` and ``(model,)``.
    scale
        What ``q k`` is multiplied by; by default ``1 / sqrt(channel)``, as in most families.
    mask
        Which keys a query sees; by default all.
    positions
        What tells positions apart inside the attention; by default nothing does.
    norms
        The norms around the attention, which are not part of it.
    qk_norm
        The norms of queries and keys, in some families.
    biases
        Which of ``"Q"``, ``"K"``, ``"V"``, ``"O"`` the model has; the others are zero here.
    sinks
        ``(head,)``: the score of a key that every query sees and that has no value; ``None`` in most families.
    soft_cap
        Scores become ``soft_cap * tanh(scores / soft_cap)``.

    Raises
    ------
    ValueError
        If shapes disagree or an entry is not finite; the message names the field.

    Examples
    --------
    Two heads of 8 channels in a stream of width 16:

    >>> import torch
    >>> shapes = [(2, 16, 8)] * 3 + [(2, 8, 16)] + [(2, 8)] * 3 + [(16,)]
    >>> layer = AttentionLayer(*map(torch.zeros, shapes))
    >>> layer.heads, layer.model, layer.channel, layer.mask.causal
    (2, 16, 8, False)
    """

    noun = "the layer"

    W_Q: Float[Tensor, "head model channel"]
    W_K: Float[Tensor, "group model channel"]
    W_V: Float[Tensor, "group model value"]
    W_O: Float[Tensor, "head value model"]
    b_Q: Float[Tensor, "head channel"]
    b_K: Float[Tensor, "group channel"]
    b_V: Float[Tensor, "group value"]
    b_O: Float[Tensor, " model"]
    scale: float = None  # pyright: ignore[reportAssignmentType]  # __post_init__ puts 1 / sqrt(channel) in its place
    mask: Mask = Mask()
    positions: Positions = NOWHERE
    norms: tuple[Norm, ...] = ()
    qk_norm: QueryKeyNorm | None = None
    sinks: Float[Tensor, " head"] | None = None
    soft_cap: float | None = None
    biases: str = "QKVO"

    __repr__ = say_shapes

    def __post_init__(self):
        if self.W_Q.ndim != 3 or self.W_K.ndim != 3 or self.W_V.ndim != 3:
            raise ValueError(
                "W_Q, W_K and W_V must be (head, model, channel), got shapes "
                f"{tuple(self.W_Q.shape)}, {tuple(self.W_K.shape)}, {tuple(self.W_V.shape)}"
            )
        # Heads share keys and values in groups; values may be of another width than queries.
        (heads, model, channel), (groups, _, value) = self.W_Q.shape, self.W_V.shape
        if not (heads and groups and channel and model) or heads % groups:
            raise ValueError(
                f"W_Q must have heads, a width and channels, and W_V groups that divide the heads; got W_Q "
                f"{tuple(self.W_Q.shape)} and W_V {tuple(self.W_V.shape)}"
            )
        own = model in (*self.W_O.shape[2:], *self.b_O.shape)  # few families write rows of another width
        written = (model,) if own else tuple(self.W_O.shape[2:3])
        self._fit(
            "W_Q and W_V",
            {
                "W_K": (groups, model, channel),
                "W_V": (groups, model, value),
                "b_Q": (heads, channel),
                "b_K": (groups, channel),
                "b_V": (groups, value),
                "W_O": (heads, value, *written),
                "b_O": written,
                **({} if self.sinks is None else {"sinks": (heads,)}),
            },
        )
        if isinstance(self.positions, Rotary) and self.positions.channel != channel:
            raise ValueError(
                f"positions must turn heads of width {channel} to fit W_Q, got a rotation for width "
                f"{self.positions.channel}"
            )
        super().__post_init__()
        if self.scale is None:
            object.__setattr__(self, "scale", channel**-0.5)
        if not math.isfinite(self.scale):
            raise ValueError(f"scale must be finite, got {self.scale}")
        if self.soft_cap is not None and not 0 < self.soft_cap < math.inf:
            raise ValueError(f"soft_cap must be a positive finite number, got {self.soft_cap}")

    @property
    def heads(self) -> int:
        """How many heads query."""
        return self.W_Q.shape[0]

    @property
    def groups(self) -> int:
        """How many sets of keys and values there are."""
        return self.W_K.shape[0]

    @property
    def model(self) -> int:
        """The width of the rows that the layer reads."""
        return self.W_Q.shape[1]

    @property
    def channel(self) -> int:
        """The width of one query."""
        return self.W_Q.shape[2]

    def norm(self, place: str = "input") -> Norm | None:
        """Return the norm at a place, if there is one."""
        return next((norm for norm in self.norms if norm.place == place), None)

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to``; frequencies keep their numbers."""
        tensors = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor | QueryKeyNorm):
                tensors[field.name] = value.to(*args, **kwargs)
        return replace(
            self,
            **tensors,
            norms=tuple(norm.to(*args, **kwargs) for norm in self.norms),
            positions=moved(self.positions, *args, **kwargs),
        )

    def reasons(self) -> list[str]:
        """Explain what the book's identities (a score of four parts, two of them constant along a row) cannot take.

        Empty for GPT-2, OPT, BERT, ViT and the like, where `plain` gives the layer of most chapters.
        """
        said = []
        if not isinstance(self.positions, StreamPositions):
            said.append(f"its positions act inside the attention ({self.positions.kind})")
        if self.qk_norm is not None:
            said.append("its queries and keys pass through a norm, so the key bias is not constant along a row")
        if self.soft_cap is not None:
            said.append(f"its scores pass through a soft cap of {self.soft_cap}: parts add before the cap only")
        if self.sinks is not None:
            said.append("it has sinks, against which a constant along a row does count")
        return said

    def per_head(self, tensor: Tensor, axis: int = 0) -> Tensor:
        """Repeat what each group has along an axis (a bias, keys), once for each head; what heads have stays."""
        size = tensor.shape[axis]
        return tensor if size == self.heads else tensor.repeat_interleave(self.heads // size, axis)

    def plain(self) -> "AttentionLayer":
        """Return the same attention as a plain layer: keys and values for each head, the scale in ``W_Q``.

        What multiplies the maps of a head (``W_Q W_K^T`` and the like) takes its layer through this, so that it is
        exact for every layer for which it does not raise.

        Raises
        ------
        ValueError
            If something inside the attention cannot be said by the eight tensors (`reasons`), or values and queries
            differ in width.
        """
        reasons = self.reasons()
        if self.W_V.shape[2] != self.channel or self.b_O.shape[0] != self.model:
            reasons.append("its values are not as wide as its queries, or it writes rows of another width")
        if reasons:
            raise ValueError(f"the layer is not a plain attention layer: {'; '.join(reasons)}")
        factor = self.scale * math.sqrt(self.channel)
        if abs(factor - 1) < 1e-12:  # so that no bit of W_Q changes where the scale is 1 / sqrt(channel)
            if self.heads == self.groups:
                return self
            factor = 1
        grouped = {name: self.per_head(getattr(self, name)) for name in ("W_K", "W_V", "b_K", "b_V")}
        return replace(self, W_Q=self.W_Q * factor, b_Q=self.b_Q * factor, scale=self.channel**-0.5, **grouped)
