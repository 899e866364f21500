"""A row of the table of families: how one family names its attention and what that attention does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.core.attention_layer import Mask
from analysis.core.positions import Positions, StreamPositions

Config = Any
"""A configuration of transformers; only attributes are read."""
LAYOUTS = ("separate", "blocks", "heads", "groups", "codegen")
"""How queries, keys and values lie: three tensors; or one, in which all queries come before all keys and all values
(blocks), each head's query, key and value lie together (heads), each group's queries before its key and value (groups),
or four blocks of queries, values and keys (codegen)."""


@dataclass(frozen=True)
class Maps:
    """The names, inside a layer, of what makes queries, keys and values.

    ``biases`` are names of biases that are not called like their matrix; ``None`` in it: there is none.
    """

    names: tuple[str, ...]
    layout: str = "separate"
    inputs_first: bool = False
    biases: tuple[str | None, ...] | None = None


@dataclass(frozen=True)
class NormName:
    """Where a norm lies inside a layer, where it stands, and of what kind it is.

    Attributes
    ----------
    path
        Inside the layer; outside, if it begins with a slash.
    eps
        A number, or what the configuration calls it.
    plus_one
        Whether the gain is ``1 + weight``.
    bare
        Whether the norm has no parameters.
    bias
        Whether it has a bias, or the option that says so; ``None``: a LayerNorm has one, another norm none.
    when
        Says of a layer whether it has the norm; default: every layer does.
    """

    path: str
    place: str = "input"
    kind: str = "layer"
    eps: str | float = "layer_norm_eps"
    plus_one: bool = False
    bare: bool = False
    bias: bool | str | None = None
    when: Callable[[Config, int], bool] | None = None


@dataclass(frozen=True)
class QueryKeyNames:
    """The norms of queries and keys inside a layer; `whole` and `after_rotation` as in `QueryKeyNorm`.

    ``bare``, ``bias`` and ``when`` are those of `NormName`.
    """

    query: str
    key: str
    kind: str = "rms"
    eps: str | float = "rms_norm_eps"
    plus_one: bool = False
    whole: bool = False
    after_rotation: bool = False
    bare: bool = False
    bias: bool | str | None = None
    when: Callable[[Config, int], bool] | None = None


@dataclass(frozen=True)
class Rest:
    """What the layers of a model have beside attention, where the book runs whole models.

    Attributes
    ----------
    model_types
        Those of the row's of which this is known.
    mlp
        Inside a layer: into the hidden units, and out of them.
    norms
        Names of the other LayerNorms: ``"mlp"`` inside each layer, others outside the layers.
    token_types
        A table outside the layers.
    embeddings
        The LayerNorm, of all that the model has, through which the first layer reads the embeddings.
    shrinks_output
        Whether ``W_O`` is initialised smaller by ``sqrt(2 layers)``.
    """

    model_types: tuple[str, ...]
    mlp: tuple[str, str]
    norms: Mapping[str, str]
    token_types: str | None = None
    embeddings: str = "attention"
    shrinks_output: bool = False


def by_option(option: str, letters: str = "QKVO", always: str = "") -> Callable[[Config], str]:
    """Return a function for rows whose biases are there by an option of the configuration, some of them always."""

    def biases(config: Config) -> str:
        there = always + (letters if getattr(config, option, False) else "")
        return "".join(letter for letter in "QKVO" if letter in there)

    return biases


def stream(kind: str) -> Callable[[Config, int, int], StreamPositions]:
    """Return a function for rows whose positions stand in the stream."""
    return lambda config, layer, channel: StreamPositions(kind)


def inverse_root(config: Config, layer: int, channel: int) -> float:
    """Return the scale of most families, ``1 / sqrt(channel)``."""
    return channel**-0.5


LEARNED = stream("learned")


@dataclass(frozen=True)
class Family:
    """One family, or one of the stacks of layers that its models have.

    Functions take the configuration, the layer (from 0) and the width of a head.
    """

    name: str
    model_types: tuple[str, ...]
    layer: str
    """The path of a layer; ``{}`` is its number."""
    maps: Maps
    output: str
    norms: tuple[NormName, ...]
    positions: Callable[[Config, int, int], Positions] = LEARNED
    mask: Callable[[Config, int, int], Mask] = lambda config, layer, channel: Mask(causal=False)
    scale: Callable[[Config, int, int], float] = inverse_root
    stack: str = ""
    """Which of a model's stacks: ``encoder``, ``decoder``, ``text``, ``vision``; empty where there is one."""
    section: str | None = None
    """The part of the configuration that describes the stack."""
    learned: str | None = None
    """What in :mod:`analysis.models.families.learned` reads the positions instead, where the attention learns them."""
    biases: Callable[[Config], str] | str = "QKVO"
    """Which of queries, keys, values and outputs have a bias."""
    heads: str = "num_attention_heads"
    groups: Callable[[Config], int] | str | None = None
    """How many sets of keys and values: a function, or what the configuration calls it; default: as many as heads."""
    layers: str = "num_hidden_layers"
    hybrid: bool = False
    """Whether some layers have no attention, as ``layer_types`` of the configuration says."""
    number: Callable[[Config, int], int] = lambda config, layer: layer
    """What stands for ``{}``: the layer's number, but where layers share their parameters."""
    tokens: str | None = None
    """The table of tokens, outside the layers; without its ``.weight``."""
    places: str | None = None
    """The table of learned positions."""
    has_places: Callable[[Config], bool] = lambda config: True
    """Whether a model has that table."""
    first_place: int = 0
    """The row of that table which position 0 has."""
    qk_norm: QueryKeyNames | None = None
    sinks: str | None = None
    soft_cap: str | None = None
    """What the configuration calls it."""
    only: Mapping[str, tuple] = field(default_factory=dict)
    """Options that change what the attention computes, with the values under which it is what the row says."""
    older: tuple[tuple[str, str], ...] = ()
    """Parts of names, and what files call them."""
    buffers: tuple[str, ...] = ()
    """What files may hold inside the attention of a layer and is not a parameter."""
    rest: Rest | None = None
    """What the layers have beside attention."""
    rounded: str = ""
    """Why the model's own numbers are known in float32 only, where they are."""
    files_only: bool = False
    """True if this layout occurs only in files (the library converts it on load)."""
