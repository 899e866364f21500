"""Reading models: from a name, a folder or a module in memory to plain tensors, layer by layer.

`load` is the entry point. What is read is what is there: a tensor that the configuration implies and the model lacks is
an error that names it, and so is one too many.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.checks import all_finite
from analysis.core.positions import Rotary
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import as_described, check_options, families_of, read_configuration, refuse_unknown
from analysis.models.families import expected
from analysis.models.families.checks import check_tensors, for_family
from analysis.models.families.row import Config, Family, Rest
from analysis.models.families.tensors import Source, Tensors, file_source, module_source
from analysis.models.files import MissingTensor, is_partial
from analysis.models.layers import QueriesAndKeys, read_layer, read_queries_and_keys
from analysis.models.wrappers import readable_parts, unwrap

BIASES = {"Q": "queries", "K": "keys", "V": "values", "O": "output"}
NAMED = 4
"""How many missing tensors a model prints."""
HASHED = 2**30
"""Bytes of files whose sha256 is printed; that of larger ones takes too long."""


@dataclass(frozen=True, repr=False)
class Layers(Sequence):
    """The attention of every layer of a model; each layer is read on first use, and no other tensor is.

    In a hybrid these are the layers that have attention, each under its own number: ``layers[4]`` is the attention of
    layer 4, and an error where that has none.
    """

    model: "Model"

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the layers that have attention."""
        return expected.attention_layers(self.model.family, self.model.config)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, layer: int) -> AttentionLayer:
        return self.model.read_layer(self.model.number(layer))

    def __iter__(self) -> Iterator[AttentionLayer]:
        return (self[layer] for layer in self.numbers)


@dataclass(frozen=True, repr=False)
class Model:
    """A model that was read: its attention layer by layer, its tables, what was found, from where, and what is missing.

    Nothing is held but names; each tensor is read on use, and so is the module that runs.

    Attributes
    ----------
    family
        The row of the table by which it is read.
    config
        What its configuration says.
    checkpoint
        Where its files came from; ``None`` for a module in memory.
    absent
        What a folder that holds a part by design does not have of the attention and the tables.
    dtype
        What tensors of files become, in the module too.
    held
        The module in memory and the tokenizer that `load` was given, if any.

    Examples
    --------
    >>> model = load("gpt2-mini")
    >>> len(model.layers), model.heads, model.width, tuple(model.positions.shape)
    (2, 8, 128, (128, 128))
    """

    family: Family
    config: Config
    tensors: Tensors
    checkpoint: Checkpoint | None = None
    absent: tuple[str, ...] = ()
    dtype: torch.dtype = torch.float32
    held: tuple[torch.nn.Module | None, Any] = (None, None)

    @cached_property
    def module(self) -> torch.nn.Module:
        """The model that runs: the one in memory, or that of the files (`pretrained.load`), read when first used."""
        from analysis.models import pretrained  # it imports this module

        if self.held[0] is not None:
            return self.held[0]
        task = "whole" if self.family.stack == "decoder" else "base"
        return pretrained.load(self.checkpoint, dtype=self.dtype, task=task)

    @cached_property
    def running(self) -> "Model":
        """This model, read from the module that runs, whose names may be others than those of its files."""
        return self if self.checkpoint is None else load(self.module, stack=self.family.stack)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer: the one that `load` was given, or that of the folder that the model was read from.

        Raises
        ------
        ValueError
            If the model is a module in memory that was not read from a folder.
        """
        from analysis.models import pretrained

        module, tokenizer = self.held
        if tokenizer is not None:
            return tokenizer
        folder = self.checkpoint or Path(getattr(module, "name_or_path", None) or "no folder")
        if isinstance(folder, Path) and not folder.is_dir():
            raise ValueError(
                f"{type(module).__name__} comes without its tokenizer: load(model, tokenizer=...) takes it along, or "
                "give ids in place of a text"
            )
        return pretrained.tokenizer(folder)

    def encode(self, inputs: Any) -> Any:
        """Return the tokenizer's tensors for a text, or for a list of texts; ids and named inputs as they are.

        >>> load("gpt2-mini").encode("To be or not to be")["input_ids"].shape
        torch.Size([1, 6])
        """
        texts = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            return inputs
        return self.tokenizer(texts, return_tensors="pt", padding=self.tokenizer.pad_token is not None)

    @property
    def layers(self) -> Layers:
        """The attention of each layer, as `AttentionLayer`."""
        return Layers(self)

    @property
    def depth(self) -> int:
        """How many layers there are, with attention or without."""
        return expected.count_layers(self.family, self.config)

    @property
    def heads(self) -> int:
        """How many heads query in a layer."""
        return getattr(self.config, self.family.heads)

    @property
    def width(self) -> int:
        """The width of the rows between layers."""
        return self.config.hidden_size

    @property
    def channel(self) -> int:
        """The width of a head."""
        return expected.head_width(self.family, self.config)

    @property
    def rest(self) -> Rest | None:
        """What the layers have beside attention, where it is known."""
        return expected.rest_of(self.family, self.config)

    @property
    def causal(self) -> bool:
        """Whether the first layer's positions see themselves and earlier ones only."""
        return self.mask(self.layers.numbers[0]).causal

    @property
    def positions(self) -> Float[Tensor, "position model"] | None:
        """The table of learned positions, from position 0 on; ``None`` where there is none, or it is missing."""
        if (name := self._places()) is None:
            return None
        table = self._read(name)
        return table.reshape(-1, table.shape[-1])[self.family.first_place :]

    @property
    def room(self) -> int | None:
        """How many tokens of a text it can read; ``None`` where nothing says so.

        >>> load("gpt2-mini").room
        128
        """
        options = ("max_position_embeddings", "max_target_positions", "max_seq_len")
        limits = [limit for limit in (getattr(self.config, name, None) for name in options) if limit and limit > 0]
        if name := self._places():
            shape, _ = self.tensors.source.headers[self.tensors.spelled[name]]
            limits.append(math.prod(shape[:-1]) - self.family.first_place)
        if not self.family.learned:  # frequencies that hold for texts within the trained length
            kinds = (self.family.positions(self.config, layer, self.channel) for layer in self.layers.numbers)
            limits += [of.longest for of in kinds if isinstance(of, Rotary) and of.longest is not None]
        return min(limits, default=None)

    @property
    def tokens(self) -> Float[Tensor, "vocab model"] | None:
        """The table of tokens, as it is stored; ``None`` where there is none, or it is missing."""
        return self._read(f"{self.family.tokens}.weight") if self.has_tokens else None

    @property
    def has_tokens(self) -> bool:
        """Whether there is a table of tokens; it is not read."""
        return f"{self.family.tokens}.weight" in self.tensors

    @property
    def norms(self) -> dict[str, str]:
        """What the model calls its norms, ``{}`` for a layer: ``attention``, and others where the row names them.

        Where an attention has more than one, they are under their places (`analysis.core.attention_layer.PLACES`).
        """
        own = self.family.norms
        inside = {"attention" if norm is own[0] else norm.place: norm.path for norm in own}
        paths = {which: p[1:] if p.startswith("/") else f"{self.family.layer}.{p}" for which, p in inside.items()}
        rest = self.rest.norms if self.rest else {}
        paths |= {which: f"{self.family.layer}.{path}" if which == "mlp" else path for which, path in rest.items()}
        return {which: self.tensors.prefix + path for which, path in paths.items()}

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not there of the whole model, so far as the table of families knows it; of a layer its first name."""
        layers = [self._rest(layer) for layer in self.layers.numbers]
        rest = [self.tensors.check(shapes) for shapes in (self._rest(None), *layers)]
        return (*self.absent, *(name for names in rest for name in names))

    def need(self, name: str) -> Tensor:
        """Return the table of ``"tokens"`` or ``"positions"``.

        Raises
        ------
        MissingTensor
            If the family has none, or it is missing.
        """
        table = getattr(self, name)
        if table is None:
            path = self.family.tokens if name == "tokens" else expected.places_of(self.family, self.config)
            why = f"its files lack {path}.weight" if path else f"models of the family {self.family.name} have none"
            raise MissingTensor(f"{self.tensors.source.where} has no table of {name}: {why}")
        return table

    def number(self, layer: int) -> int:
        """Return the number of a layer, counted from the end if it is negative; refuse one that is not there.

        In a hybrid, one without attention is refused as well.
        """
        try:
            number = range(self.depth)[layer]
        except (IndexError, TypeError):
            raise IndexError(f"layer must be 0..{self.depth - 1}, got {layer!r}") from None
        if number not in self.layers.numbers:
            raise IndexError(f"layer {number} has no attention: {self.where_attention()}")
        return number

    def where_attention(self) -> str:
        """Say which layers have attention, nothing where all have.

        >>> from analysis.models.families.tiny import tiny_model
        >>> load(tiny_model("jamba")).where_attention()
        'attention in layers 1 and 3 of 4'
        """
        *most, last = map(str, self.layers.numbers)
        if len(self.layers) == self.depth:
            return ""
        numbers = f"layers {', '.join(most)} and {last}" if most else f"layer {last}"
        return f"attention in {numbers} of {self.depth}"

    def path(self, layer: int) -> str:
        """Return what the model calls a layer."""
        return self.tensors.prefix + expected.layer_path(self.family, self.config, layer)

    def norm_paths(self, layer: int) -> tuple[str, ...]:
        """Return what the model calls a layer's norms, in the order of `AttentionLayer.norms`."""
        return tuple(self.tensors.prefix + path for _, path in expected.norms_of(self.family, self.config, layer))

    def mask(self, layer: int) -> Mask:
        """Return which keys the queries of a layer see."""
        return self.family.mask(self.config, layer, self.channel)

    def read_layer(self, layer: int) -> AttentionLayer:
        """Read one attention layer."""
        with self._naming(layer):
            return read_layer(self.family, self.config, self.tensors, layer)

    def queries_and_keys(self, layer: int) -> QueriesAndKeys:
        """Read of a layer only what makes queries and keys before they are turned: no values, no output."""
        layer = self.number(layer)
        with self._naming(layer):
            return read_queries_and_keys(self.family, self.config, self.tensors, layer)

    def norm(self, which: str, layer: int = 0) -> Norm:
        """Read one LayerNorm, by a key of `norms`: that of the attention or the MLP of a layer, or one outside them."""
        if which not in self.norms:
            raise ValueError(f"which must be one of {', '.join(self.norms)} for {self.family.name}, got {which!r}")
        path = self.norms[which].removeprefix(self.tensors.prefix).format(self.number(layer))
        eps = getattr(self.config, str(self.family.norms[0].eps), self.family.norms[0].eps)
        shapes = {f"{path}.{part}": (self.width,) for part in ("weight", "bias")}
        return Norm(*(self._read(name, shapes) for name in shapes), float(eps))

    def mlp(self, layer: int) -> MlpWeights:
        """Read one MLP, its matrices ``(model, hidden)`` and ``(hidden, model)``."""
        if self.rest is None:
            raise ValueError(f"the MLPs of a {self.config.model_type} are not read")
        layer = self.number(layer)
        path = expected.layer_path(self.family, self.config, layer)
        names = [f"{path}.{name}.{part}" for name in self.rest.mlp for part in ("weight", "bias")]
        tensors = [self._read(name, self._rest(layer)) for name in names]
        turned = [W if W.ndim == 1 or self.family.maps.inputs_first else W.T for W in tensors]
        return MlpWeights(*(tensor.contiguous() for tensor in turned))

    def plain_layers(self) -> list[AttentionLayer]:
        """Read the attention of every layer as `AttentionLayer`; refusals as `AttentionLayer.plain`."""
        return [layer.plain() for layer in self.layers]

    def encoder_layers(self) -> list[EncoderLayer]:
        """Read the layers of a BERT: post-LN, every position attends to every other, the exact GELU.

        Raises
        ------
        ValueError
            If the model is not built so, and our forward pass would not be its own.
        """
        if self.config.model_type != "bert" or self.causal:
            raise ValueError(f"model must be an encoder of the BERT family, got {self.tensors.source.where}")
        if self.config.hidden_act != "gelu":
            raise ValueError(
                f"model must have the exact GELU for its activation, got {self.config.hidden_act!r}: our "
                "forward pass would not be its own"
            )
        return [
            EncoderLayer(layer.plain(), self.norm("attention", i), self.mlp(i), self.norm("mlp", i))
            for i, layer in enumerate(self.layers)
        ]

    def token_types(self) -> Float[Tensor, "type model"] | None:
        """Read the table of token types; ``None`` where the family has none."""
        types = self.rest.token_types if self.rest else None
        return self._read(f"{types}.weight", self._rest(None)) if types else None

    def count_parameters(self) -> int:
        """Count the parameters of a whole model of this configuration, a head for language or classes left out."""
        return count_parameters(self.family, self.config)

    def _places(self) -> str | None:
        places = expected.places_of(self.family, self.config) or ""
        return next((name for name in (f"{places}.weight", places) if name in self.tensors), None)

    def _rest(self, layer: int | None) -> expected.Shapes:
        return expected.rest_tensors(self.family, self.config, layer)

    def _read(self, name: str, shapes: expected.Shapes | None = None) -> Tensor:
        """Read a tensor beside the layers' attention: it must be there, finite, and of its shape in ``shapes``."""
        self.tensors.check({name: (shapes or {}).get(name)})
        tensor = self.tensors.need(name)
        if not all_finite(tensor):
            raise ValueError(f"tensor {name!r} of {self.tensors.source.where} holds entries that are not finite")
        return tensor

    @contextmanager
    def _naming(self, layer: int) -> Iterator[None]:
        """Say of a refusal in which layer of which model it is."""
        try:
            with as_described("a layer as the configuration describes it"):
                yield
        except ValueError as error:
            raise ValueError(f"{self.path(layer)} of {self.tensors.source.where}: {error}") from None

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10}{said}" for name, said in self.describe().items())

    def describe(self) -> dict[str, str]:
        """Describe what was found, from where, and what is missing, in words for a table."""
        family, config, missing = self.family, self.config, self.missing
        groups = expected.count_groups(family, config)
        shared = "" if groups == self.heads else f" on {groups} keys and values"
        norms = ", ".join(f"{which} {path}" for which, path in self.norms.items())
        where = self.where_attention()
        return {
            "family": f"{family.name} ({config.model_type}){family.stack and ', ' + family.stack}",
            "layers": f"{len(self.layers)} of {self.heads} heads{shared}, width {self.width}"
            + (where and f"; {where}"),
            "positions": self._positions(),
            "tokens": f"{family.tokens}.weight" if self.has_tokens else "none",
            "norms": norms,
            "biases": ", ".join(BIASES[letter] for letter in expected.has_biases(family, config)) or "none",
            "from": self._origin(),
            "missing": _some(missing) if missing else "nothing",
        }

    def _positions(self) -> str:
        if self.family.learned:
            return f"inside the attention ({self.family.learned})"
        kind = self.family.positions(self.config, self.layers.numbers[0], self.channel).kind
        return kind if expected.places_of(self.family, self.config) is None else f"learned, {self.family.places}"

    def _origin(self) -> str:
        if self.checkpoint is None:
            return f"{self.tensors.source.where} in memory"
        found = self.checkpoint
        said = f"{found.label()}, {found.source}, {found.folder}" + (
            f", revision {found.revision}" if found.revision else ""
        )
        if sum(path.stat().st_size for path in found.files()) > HASHED:
            return said
        return said + "".join(f", sha256 {digest[:12]}" for digest in found.provenance()["sha256"].values())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


AnyModel = str | Path | Checkpoint | torch.nn.Module | Model
"""What `load` takes, and with it every function of a whole model."""


def count_parameters(row: Family, config: Config) -> int:
    """Count the parameters of a whole model, of a row that says what its layers have beside attention.

    >>> from analysis.models.configuration import read_settings
    >>> config = read_settings({"model_type": "gpt2", "n_layer": 12, "n_head": 12,
    ...                         "n_embd": 768})
    >>> count_parameters(families_of("gpt2")[0], config)
    124439808
    """
    shapes = expected.layer_tensors(row, config, 0) | expected.rest_tensors(row, config, 0)
    outside = expected.rest_tensors(row, config)
    tables = config.vocab_size + (config.max_position_embeddings if expected.places_of(row, config) else 0)
    per_layer, others = (sum(map(math.prod, part.values())) for part in (shapes, outside))
    return expected.count_layers(row, config) * per_layer + others + tables * config.hidden_size


def load(
    source: AnyModel,
    *,
    stack: str | None = None,
    dtype: torch.dtype = torch.float32,
    tokenizer: Any = None,
    stand_in: bool = False,
    merge: bool = False,
) -> Model:
    """Open a model, given by name, by folder, or as a module of transformers in memory.

    Reads only the headers of safetensors files; nothing is instantiated before ``layers``, ``module`` or another
    attribute is used. A module in memory is read in place.

    Parameters
    ----------
    source
        A name or folder as `find` takes it, its checkpoint, a loaded module with or without a head on it, or a `Model`,
        which is returned as it is.
    stack
        Stack to read, for models with more than one: ``"encoder"``, ``"decoder"``, ``"text"``, ``"vision"``; default:
        the first that the table lists.
    dtype
        What tensors of files become; a module's stay as they are.
    tokenizer
        Tokenizer of a module in memory, for functions that take a text.
    stand_in
        As in `find`: whether a smaller model may take the place of one that is not here.
    merge
        Whether to read a copy of a module of peft in memory that has its adapter (LoRA) merged; the module stays as it
        is.

    Raises
    ------
    NotFound, Tampered
        If a file is missing, or is not a whole safetensors file.
    MissingTensor
        If a tensor is not there that the configuration implies, and config.json does not say ``"partial": true``.
    ValueError
        If the family is not read (with the reason, where it is known), an option changes the attention to what is not
        read, a tensor has another shape than the configuration implies or is one too many, or an index leads elsewhere.

    Examples
    --------
    >>> layer = load("gpt2-mini").layers[0]
    >>> layer.heads, layer.positions.kind, layer.mask.causal
    (8, 'learned', True)
    """
    if isinstance(source, Model):
        if stack in (None, source.family.stack):
            return source if tokenizer is None else replace(source, held=(source.held[0], tokenizer))
        source, dtype, tokenizer = source.checkpoint or source.module, source.dtype, tokenizer or source.held[1]
    if isinstance(source, torch.nn.Module):
        source = unwrap(source, merge=merge)
        kind, name = source.config.model_type, type(source).__name__
        refuse_unknown(kind, name, {} if families_of(kind) else readable_parts(source))
        read = _choose(source.config, module_source(source), stack, name, None)
        return replace(read, held=(source, tokenizer))
    checkpoint = checkpoints.resolve(source, stand_in=stand_in)
    config = read_configuration(checkpoint)
    read = _choose(config, file_source(checkpoint, dtype), stack, checkpoint.name, checkpoint)
    return replace(read, dtype=dtype, held=(None, tokenizer))


def _choose(config: Config, source: Source, stack: str | None, name: str, checkpoint: Checkpoint | None) -> Model:
    """Take the first row whose tensors are there, and check that all of them are."""
    model_type = config.model_type
    refuse_unknown(model_type, name)
    rows = families_of(model_type)
    if stack is not None and stack not in (stacks := [row.stack for row in rows]):
        raise ValueError(f"stack must be one of {', '.join(map(repr, stacks))} for {model_type}, got {stack!r}")
    rows = tuple(row for row in rows if stack in (None, row.stack))
    for row in rows:
        section = getattr(config, row.section, None) if row.section else None
        section = config if section is None else section
        check_options(row, section, name)
        tensors = for_family(source, row, section)
        if tensors is not None:
            partial = checkpoint is not None and is_partial(checkpoint)
            with as_described(f"{name} as its configuration describes it"):
                absent = check_tensors(tensors, row, section, partial=partial)
            return Model(row, section, tensors, checkpoint, tuple(absent))
    first = [expected.attention_layers(row, config)[0] if row.hybrid else 0 for row in rows]
    names = (f"{row.layer.format(number)}.{row.output}.weight" for row, number in zip(rows, first, strict=True))
    raise MissingTensor(
        f"{source.where} is a {model_type} without the attention of its first layer: no {' or '.join(names)}"
        + ("; of a part in memory, give the whole model and its stack" if rows[0].stack and not checkpoint else "")
    )
