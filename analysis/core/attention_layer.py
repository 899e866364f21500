"""One attention layer of any family as plain tensors: grouped queries, positions, norms, sinks, soft cap, mask.

`AttentionWeights` (:mod:`analysis.core.weights`) is the case that most chapters are about: as many keys as queries, a
scale of ``1 / sqrt(channel)``, nothing else inside the attention. `AttentionLayer` is what models of today need.
"""

import math
from dataclasses import dataclass, fields, replace

from jaxtyping import Float
from torch import Tensor

from analysis.core.positions import Positions, StreamPositions, moved
from analysis.core.weights import AttentionWeights, _Frozen

NOWHERE = StreamPositions("none")
PLACES = ("input", "update", "sum")
"""Where a norm stands: on what the layer reads, on what it writes, or on the stream after the sum of both."""
KINDS = ("layer", "rms", "l2", "affine")
"""How a norm scales a row: minus its mean and by its deviation, by its root mean square, by that without weights, or
not at all."""


@dataclass(frozen=True)
class Norm(_Frozen):
    """A norm of rows: ``gain`` and ``bias`` as they are multiplied and added (Gemma's ``1 + w`` is carried out).

    ``bias`` is zero where the model has none; ``has_bias`` says which.
    """

    noun = "the norm"

    gain: Float[Tensor, " width"]
    bias: Float[Tensor, " width"]
    eps: float
    kind: str = "layer"
    place: str = "input"
    has_bias: bool = True

    def __post_init__(self):
        if self.kind not in KINDS or self.place not in PLACES:
            raise ValueError(
                f"kind must be one of {', '.join(KINDS)} and place one of {', '.join(PLACES)}, got "
                f"{self.kind!r} and {self.place!r}"
            )
        if self.gain.shape != self.bias.shape:
            raise ValueError(
                f"gain and bias must have one shape, got {tuple(self.gain.shape)} and {tuple(self.bias.shape)}"
            )
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
        Only itself and earlier ones.
    reach
        Only those at most so far away; ``None``: at any distance.
    chunk
        Only those of its own block of so many positions; ``None``: no blocks.
    """

    causal: bool
    reach: int | None = None
    chunk: int | None = None


@dataclass(frozen=True)
class AttentionLayer(_Frozen):
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
        What ``q k`` is multiplied by: ``1 / sqrt(channel)`` in most families.
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
    scale: float
    mask: Mask
    positions: Positions = NOWHERE
    norms: tuple[Norm, ...] = ()
    qk_norm: QueryKeyNorm | None = None
    sinks: Float[Tensor, " head"] | None = None
    soft_cap: float | None = None
    biases: str = "QKVO"

    def __post_init__(self):
        if self.W_Q.ndim != 3 or self.W_K.ndim != 3 or self.W_V.ndim != 3:
            raise ValueError(
                "W_Q, W_K and W_V must be (head, model, channel), got shapes "
                f"{tuple(self.W_Q.shape)}, {tuple(self.W_K.shape)}, {tuple(self.W_V.shape)}"
            )
        (heads, model, channel), (groups, _, value) = self.W_Q.shape, self.W_V.shape
        if not (heads and groups and channel and model) or heads % groups:
            raise ValueError(
                f"heads must be a multiple of groups, and no size 0; got W_Q {tuple(self.W_Q.shape)} and "
                f"W_V {tuple(self.W_V.shape)}"
            )
        self._fit(
            "W_Q and W_V",
            {
                "W_K": (groups, model, channel),
                "W_V": (groups, model, value),
                "b_Q": (heads, channel),
                "b_K": (groups, channel),
                "b_V": (groups, value),
                "W_O": (heads, value, self.b_O.shape[0]),
                **({} if self.sinks is None else {"sinks": (heads,)}),
            },
        )
        super().__post_init__()

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
        """Say what the book's identities (a score of four parts, two of them constant along a row) cannot take.

        Empty for GPT-2, OPT, BERT, ViT and the like, where `plain` gives the layer of most chapters.
        """
        said = {
            f"its positions act inside the attention ({self.positions.kind})": not isinstance(
                self.positions, StreamPositions
            ),
            "its queries and keys pass through a norm, so the key bias is no constant along a row": self.qk_norm,
            f"its scores pass through a soft cap of {self.soft_cap}: parts add before the cap only": self.soft_cap,
            "it has sinks, against which a constant along a row does count": self.sinks is not None,
        }
        return [reason for reason, applies in said.items() if applies]

    def plain(self) -> AttentionWeights:
        """Return the layer as `AttentionWeights`: keys and values repeated for each head, the scale in ``W_Q``.

        Raises
        ------
        ValueError
            If something inside the attention cannot be said by these (`reasons`), or values and queries differ in
            width.
        """
        reasons = self.reasons()
        if self.W_V.shape[2] != self.channel or self.b_O.shape[0] != self.model:
            reasons.append("its values are not as wide as its queries, or it writes rows of another width")
        if reasons:
            raise ValueError(f"the layer is no plain attention layer: {'; '.join(reasons)}")
        factor, repeat = self.scale * math.sqrt(self.channel), self.heads // self.groups
        close = abs(factor - 1) < 1e-12  # so that no bit of W_Q changes where the scale is 1 / sqrt(channel)
        W_Q, b_Q = (self.W_Q, self.b_Q) if close else (self.W_Q * factor, self.b_Q * factor)
        grouped = (
            tensor if repeat == 1 else tensor.repeat_interleave(repeat, 0)
            for tensor in (self.W_K, self.W_V, self.b_K, self.b_V)
        )
        W_K, W_V, b_K, b_V = grouped
        return AttentionWeights(W_Q, W_K, W_V, self.W_O, b_Q, b_K, b_V, self.b_O)
