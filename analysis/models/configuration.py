"""Whole models that the book runs, GPT-2 and BERT: what config.json says of their sizes, tables, MLPs and options.

What the attention's tensors are called is in the table of :mod:`analysis.models.families`, which reads the attention of
many more families. What belongs here: what the rest of a model is called, where the norm stands, the options that
change the mathematics. What does not: opening files (:mod:`analysis.models.parameters`), making layers of tensors
(:mod:`analysis.models.layers`). No library for models is imported.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.models.families import decoders, encoders
from analysis.models.families.row import Family as Row

Shapes = dict[str, tuple[int, ...]]
"""Tensors by name, with the shapes that they must have."""


@dataclass(frozen=True, eq=False)
class Family:
    """How one family names its parameters and builds its layers; ``{}`` in a name stands for the layer, from 0."""

    name: str
    model_types: tuple[str, ...]
    """What ``model_type`` in config.json may be."""
    sizes: Mapping[str, str]
    """What config.json calls layers, heads, model, hidden, positions, vocab, eps, activation, ..."""
    defaults: Mapping[str, int | float | str]
    """What those of them are that config.json may leave out."""
    query_key_value: tuple[str, ...]
    """One name where the three maps lie side by side in one tensor, three names where each has its own."""
    output: str
    norms: Mapping[str, str]
    """``attention`` and ``mlp`` in each layer, others outside the layers."""
    mlp: tuple[str, str]
    """Into the hidden units, and out of them."""
    tokens: str
    positions: str | None
    """The table of learned positions; ``None`` where there is none."""
    token_types: str | None = None
    prefixes: tuple[str, ...] = ("",)
    """What a file of a whole model may put before the names."""
    older: Mapping[str, str] = field(default_factory=dict)
    """How older files end names that end so today."""
    inputs_first: bool = False
    """Whether matrices are stored ``(input, output)``, as Conv1D does, and not ``(output, input)``, as Linear does."""
    norm_first: bool = False
    """Whether the LayerNorm stands before the block (pre-LN) and not after it (post-LN)."""
    causal: bool = False
    shrinks_output: bool = False
    """Whether ``W_O`` is initialised smaller by ``sqrt(2 layers)``."""
    hidden_per_model: int | None = None
    """The MLP's width in widths of the stream, where config.json leaves it out."""
    divides_by_root: str | None = None
    """The option that says whether scores are divided by ``sqrt(channel)``; without one they are."""
    divides_by_layer: str | None = None
    """The option that says whether scores are divided by the layer's number too; without one they are not."""
    only: Mapping[str, tuple] = field(default_factory=dict)
    """Options of config.json that change what a layer computes, with the values under which it is what is read here."""

    def input_norm(self) -> str:
        """Name the LayerNorm through which the first layer reads the embeddings, a key of ``norms``."""
        return "attention" if self.norm_first else "embeddings"


_NOWHERE = {
    "quantization_config": (None,),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "pruned_heads": ({}, [], None),
    "sliding_window": (None,),
    "attention_chunk_size": (None,),
}


def _attention(row: Row) -> dict:
    """Return what the table of families says of a family's attention: names of tensors, and how matrices lie."""
    return {
        "query_key_value": tuple(f"{row.layer}.{name}" for name in row.maps.names),
        "tokens": row.tokens,
        "output": f"{row.layer}.{row.output}",
        "positions": row.places,
        "inputs_first": row.maps.inputs_first,
    }


def _norm(row: Row) -> str:
    return f"{row.layer}.{row.norms[0].path}"


GPT2 = Family(
    "gpt2",
    ("gpt2",),
    prefixes=("", "transformer."),
    sizes={
        "layers": "n_layer",
        "heads": "n_head",
        "model": "n_embd",
        "hidden": "n_inner",
        "positions": "n_positions",
        "vocab": "vocab_size",
        "eps": "layer_norm_epsilon",
        "activation": "activation_function",
    },
    defaults={"positions": 1024, "vocab": 50257, "eps": 1e-5, "activation": "gelu_new"},
    **_attention(decoders.GPT2),
    norms={"attention": _norm(decoders.GPT2), "mlp": "h.{}.ln_2", "final": "ln_f"},
    mlp=("h.{}.mlp.c_fc", "h.{}.mlp.c_proj"),
    norm_first=True,
    causal=True,
    shrinks_output=True,
    hidden_per_model=4,
    divides_by_root="scale_attn_weights",
    divides_by_layer="scale_attn_by_inverse_layer_idx",
    only={**_NOWHERE, "is_causal": (True, None)},
)
BERT = Family(
    "bert",
    ("bert",),
    prefixes=("", "bert."),
    older=dict(encoders.BERT.older),
    sizes={
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "model": "hidden_size",
        "hidden": "intermediate_size",
        "positions": "max_position_embeddings",
        "vocab": "vocab_size",
        "token_types": "type_vocab_size",
        "eps": "layer_norm_eps",
        "activation": "hidden_act",
    },
    defaults={"positions": 512, "vocab": 30522, "token_types": 2, "eps": 1e-12, "activation": "gelu"},
    **_attention(encoders.BERT),
    norms={
        "embeddings": "embeddings.LayerNorm",
        "attention": _norm(encoders.BERT),
        "mlp": "encoder.layer.{}.output.LayerNorm",
    },
    mlp=("encoder.layer.{}.intermediate.dense", "encoder.layer.{}.output.dense"),
    token_types="embeddings.token_type_embeddings",
    only={
        **_NOWHERE,
        "is_decoder": (False, None),
        "is_causal": (False, None),
        "position_embedding_type": ("absolute", None),
    },
)
FAMILIES = (GPT2, BERT)


def find_family(model_type: object, name: str = "the model") -> Family:
    """Return the entry of the table for a ``model_type``; ``name`` is what an error calls the model.

    Examples
    --------
    >>> find_family("bert").norm_first
    False
    >>> find_family("t5")
    Traceback (most recent call last):
    ValueError: the model is of the family 't5'; these are read: gpt2, bert
    """
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    raise ValueError(
        f"{name} is of the family {model_type!r}; these are read: {', '.join(family.name for family in FAMILIES)}"
    )


@dataclass(frozen=True)
class ModelConfig:
    """What ``config.json`` says of a model, in one vocabulary for all families."""

    family: Family
    layers: int
    heads: int
    model: int
    """The width of the residual stream."""
    hidden: int
    """The width of the MLP."""
    positions: int
    """The longest text."""
    vocab: int
    token_types: int
    eps: float
    activation: str
    initializer_range: float
    causal: bool
    divides_by_root: bool = True
    """Whether scores are divided by ``sqrt(channel)``; some GPT-2s leave it out."""
    divides_by_layer: bool = False
    """Whether scores are divided by the layer's number too, counted from 1, as in some GPT-2s."""

    @property
    def channel(self) -> int:
        """The width of one head."""
        return self.model // self.heads

    @property
    def parameters(self) -> int:
        """How many parameters the model has, a head for language or classes left out.

        >>> read_config({"model_type": "gpt2", "n_layer": 12, "n_head": 12,
        ...              "n_embd": 768}).parameters
        124439808
        """
        shapes = self.input_shapes() | self.layer_shapes(0)
        per_layer = sum(map(math.prod, self.layer_shapes(0).values()))
        outside = sum(map(math.prod, shapes.values())) - per_layer
        return self.layers * per_layer + outside

    def score_factor(self, layer: int) -> float:
        """Return what the model's scores are, as a multiple of ``q k / sqrt(channel)``: 1 but in some GPT-2s."""
        return (1 if self.divides_by_root else math.sqrt(self.channel)) / (layer + 1 if self.divides_by_layer else 1)

    def _map_shapes(self, name: str, inputs: int, outputs: int) -> Shapes:
        weight = (inputs, outputs) if self.family.inputs_first else (outputs, inputs)
        return {f"{name}.weight": weight, f"{name}.bias": (outputs,)}

    def projection_shapes(self, layer: int) -> Shapes:
        """List weights and biases of queries, keys and values, in this order."""
        names = self.family.query_key_value
        shapes: Shapes = {}
        for name in names:
            shapes |= self._map_shapes(name.format(layer), self.model, self.model * 3 // len(names))
        return shapes

    def output_shapes(self, layer: int) -> Shapes:
        """List weight and bias of ``W_O``."""
        return self._map_shapes(self.family.output.format(layer), self.model, self.model)

    def norm_shapes(self, which: str, layer: int = 0) -> Shapes:
        """List gain and bias of a LayerNorm."""
        name = self.family.norms[which].format(layer)
        return {f"{name}.weight": (self.model,), f"{name}.bias": (self.model,)}

    def mlp_shapes(self, layer: int) -> Shapes:
        """List weights and biases of the MLP: into the hidden units, then out of them."""
        into, out = (name.format(layer) for name in self.family.mlp)
        return self._map_shapes(into, self.model, self.hidden) | self._map_shapes(out, self.hidden, self.model)

    def layer_shapes(self, layer: int) -> Shapes:
        """List all tensors of one layer."""
        return (
            self.projection_shapes(layer)
            | self.output_shapes(layer)
            | self.norm_shapes("attention", layer)
            | self.norm_shapes("mlp", layer)
            | self.mlp_shapes(layer)
        )

    def table_shapes(self, which: str) -> Shapes:
        """List the one tensor of a table of rows: ``tokens``, ``positions`` or ``token_types``; none if there is none.

        >>> read_config({"model_type": "gpt2", "n_layer": 1, "n_head": 1,
        ...              "n_embd": 8}).table_shapes("positions")
        {'wpe.weight': (1024, 8)}
        """
        name = getattr(self.family, which)
        rows = {"tokens": self.vocab, "positions": self.positions, "token_types": self.token_types}[which]
        return {f"{name}.weight": (rows, self.model)} if name else {}

    def input_shapes(self) -> Shapes:
        """List the tensors outside the layers: tables and LayerNorms."""
        shapes: Shapes = {}
        for which in ("tokens", "positions", "token_types"):
            shapes |= self.table_shapes(which)
        for which in self.family.norms.keys() - {"attention", "mlp"}:
            shapes |= self.norm_shapes(which)
        return shapes

    def check_layer(self, layer: int) -> None:
        """Refuse a layer that is not there."""
        if not isinstance(layer, int) or isinstance(layer, bool) or not 0 <= layer < self.layers:
            raise ValueError(f"layer must be 0..{self.layers - 1}, got {layer!r}")


def read_config(settings: object, source: str = "config.json", name: str = "the model") -> ModelConfig:
    """Read the contents of a ``config.json``; every number is checked, and every option that would change a layer.

    Parameters
    ----------
    settings
        What the JSON holds.
    source, name
        What an error calls the file, and the model.

    Raises
    ------
    ValueError
        If the family is not read here, a size is no positive whole number (text is no number), heads do not divide the
        width, ``eps`` or ``initializer_range`` is no finite number, or an option has a value under which a layer would
        compute something else than what is read here.

    Examples
    --------
    >>> read_config({"model_type": "gpt2", "n_layer": 2, "n_head": 3,
    ...              "n_embd": 12}).hidden
    48
    >>> read_config({"model_type": "gpt2", "n_layer": "2", "n_head": 3, "n_embd": 12})
    Traceback (most recent call last):
    ValueError: config.json must give n_layer as a positive whole number, got '2'
    """
    if not isinstance(settings, Mapping):
        raise ValueError(f"{source} must hold a JSON object, got {type(settings).__name__}")
    family = find_family(settings.get("model_type"), name)
    for option, values in family.only.items():
        if settings.get(option) not in values:
            raise ValueError(
                f"{source} has {option} = {settings[option]!r}, which changes what a layer computes; read "
                f"here are models with {' or '.join(map(repr, values[:1]))}, or without the option"
            )
    sizes = {word: settings.get(key) for word, key in family.sizes.items() if word not in ("eps", "activation")}
    sizes = {word: family.defaults.get(word) if size is None else size for word, size in sizes.items()}
    if derived := family.hidden_per_model if sizes["hidden"] is None else None:
        sizes.pop("hidden")
    keys = family.sizes
    if wrong := [word for word, size in sizes.items() if not _is_whole(size)]:
        raise ValueError(
            f"{source} must give {', '.join(keys[word] for word in wrong)} as a positive whole number, "
            f"got {', '.join(repr(sizes[word]) for word in wrong)}"
        )
    if sizes["model"] % sizes["heads"]:
        raise ValueError(
            f"{source}: {keys['model']} {sizes['model']} is no multiple of {keys['heads']} {sizes['heads']}"
        )
    if derived:
        sizes["hidden"] = derived * sizes["model"]
    activation = settings.get(family.sizes["activation"], family.defaults["activation"])
    if not isinstance(activation, str):
        raise ValueError(f"{source} must name {family.sizes['activation']}, got {activation!r}")
    sizes.setdefault("token_types", 0)
    return ModelConfig(
        family,
        **sizes,
        eps=_number(settings, family.sizes["eps"], family.defaults["eps"], source),
        activation=activation,
        causal=family.causal,
        initializer_range=_number(settings, "initializer_range", 0.02, source),
        divides_by_root=_flag(settings, family.divides_by_root, True, source),
        divides_by_layer=_flag(settings, family.divides_by_layer, False, source),
    )


def _is_whole(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def _number(settings: Mapping, key: str, default: float, source: str) -> float:
    number = default if settings.get(key) is None else settings[key]
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
        raise ValueError(f"{source} must give {key} as a finite number, not negative, got {number!r}")
    return float(number)


def _flag(settings: Mapping, key: str | None, default: bool, source: str) -> bool:
    flag = settings.get(key, default) if key else default
    if not isinstance(flag, bool):
        raise ValueError(f"{source} must give {key} as true or false, got {flag!r}")
    return flag
