"""The adapter: any model of the table of families, loaded or in files, as a sequence of `AttentionLayer`.

What belongs here: which row reads a model, and making a layer of its tensors. What does not: the rows, and how tensors
are looked up (:mod:`analysis.models.families.tensors`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm, QueryKeyNorm
from analysis.core.positions import Positions, moved
from analysis.models.checkpoints import Checkpoint
from analysis.models.families import learned
from analysis.models.families.options import check_options
from analysis.models.families.projections import read_projections, read_query_key
from analysis.models.families.row import Config, Family, NormName, QueryKeyNames
from analysis.models.families.table import FAMILIES, REFUSED
from analysis.models.families.tensors import Tensors, file_tensors, module_tensors
from analysis.models.files import MissingTensor, raw_config

CALLERS = (
    "attn_implementation",
    "experts_implementation",
    "auto_map",
    "dtype",
    "torch_dtype",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "kernel_config",
)
"""What a config.json may hold that is for the caller to choose, never for the folder."""


@dataclass(frozen=True)
class QueriesAndKeys:
    """What makes queries and keys of one layer, before they are turned.

    Attributes
    ----------
    scale, positions, sinks
        As in `AttentionLayer`; positions that need parameters are left out (``None``).
    norm
        The norm through which the layer reads its input, where it stands before the layer.
    normalised
        Whether queries and keys are normalised.
    """

    W_Q: Float[Tensor, "head model channel"]
    b_Q: Float[Tensor, "head channel"]
    W_K: Float[Tensor, "group model channel"]
    b_K: Float[Tensor, "group channel"]
    biases: str
    scale: float
    norm: Norm | None
    positions: Positions | None
    normalised: bool
    sinks: Float[Tensor, " head"] | None


@dataclass(frozen=True)
class AttentionLayers(Sequence):
    """The attention of every layer of one stack of a model; a layer is read when it is asked for.

    >>> from analysis.models.checkpoints import find
    >>> model = from_checkpoint(find("gpt2-mini"))
    >>> model.family.name, len(model), model[0].heads, model[0].positions.kind
    ('GPT-2', 2, 8, 'learned')
    """

    family: Family
    model_type: str
    config: Config
    tensors: Tensors

    def __len__(self) -> int:
        return getattr(self.config, self.family.layers)

    def __getitem__(self, layer: int) -> AttentionLayer:
        layer = range(len(self))[layer]
        family, path = self.family, self._inside(layer)
        fields = read_projections(family, self.config, self.tensors, path)
        channel = fields["W_Q"].shape[2]
        positions = family.positions(self.config, layer, channel)
        if isinstance(positions, str):
            positions = learned.READERS[positions](family, self.config, layer, self.tensors, fields)
        positions = moved(positions, fields["W_Q"].device)  # what a configuration says has no device of its own
        cap = getattr(self.config, family.soft_cap, None) if family.soft_cap else None
        return AttentionLayer(
            **fields,
            scale=family.scale(self.config, layer, channel),
            mask=family.mask(self.config, layer, channel),
            positions=positions,
            norms=self._norms(layer, fields["W_Q"]),
            qk_norm=self._qk_norm(layer, fields["W_Q"]),
            sinks=self.tensors.need(f"{path}.{family.sinks}") if family.sinks else None,
            soft_cap=cap,
        )

    def queries_and_keys(self, layer: int) -> QueriesAndKeys:
        """Read of a layer only what makes queries and keys before they are turned: no values, no output."""
        layer = range(len(self))[layer]
        path = self._inside(layer)
        maps = read_query_key(self.family, self.config, self.tensors, path)
        channel = maps["W_Q"].shape[2]
        positions = self.family.positions(self.config, layer, channel)
        norm = next((norm for norm in self._norms(layer, maps["W_Q"]) if norm.place == "input"), None)
        return QueriesAndKeys(
            **maps,
            scale=self.family.scale(self.config, layer, channel),
            norm=norm,
            positions=None if isinstance(positions, str) else moved(positions, maps["W_Q"].device),
            normalised=self._qk_norm(layer, maps["W_Q"]) is not None,
            sinks=self.tensors.need(f"{path}.{self.family.sinks}") if self.family.sinks else None,
        )

    def path(self, layer: int) -> str:
        """Return the name of a layer in the model, with what stands before it."""
        return self.tensors.prefix + self._inside(layer)

    def _inside(self, layer: int) -> str:
        return self.family.layer.format(self.family.number(self.config, layer))

    def _norms(self, layer: int, like: Tensor) -> tuple[Norm, ...]:
        norms = (self._norm(self._norm_path(layer, norm), norm, like, norm.place) for norm in self.family.norms)
        return tuple(norm for norm in norms if norm)

    def norm_paths(self, layer: int) -> tuple[str, ...]:
        """Return the names of a layer's norms in the model, in the order of `AttentionLayer.norms`."""
        paths = ((self._norm_path(layer, norm), norm.bare) for norm in self.family.norms)
        return tuple(self.tensors.prefix + path for path, bare in paths if bare or self.tensors.find(f"{path}.weight"))

    def _norm_path(self, layer: int, norm: NormName) -> str:
        if norm.path.startswith("/"):
            return norm.path[1:].format(self.family.number(self.config, layer))
        paths = [f"{self._inside(layer)}.{path}" for path in norm.path.split("|")]
        return next((path for path in paths if self.tensors.find(f"{path}.weight")), paths[0])

    def _norm(
        self, path: str, name: NormName | QueryKeyNames, like: Tensor, place: str = "input", width: int | None = None
    ) -> Norm | None:
        gain, bias = self.tensors.get(f"{path}.weight"), self.tensors.get(f"{path}.bias")
        eps = name.eps if isinstance(name.eps, float) else getattr(self.config, name.eps)
        if gain is None and isinstance(name, NormName) and not name.bare:
            return None
        if gain is None:
            gain = like.new_ones(width or like.shape[1])
        elif name.plus_one:
            gain = 1 + gain
        gain = gain.flatten()
        return Norm(
            gain,
            torch.zeros_like(gain) if bias is None else bias.flatten(),
            float(eps),
            name.kind,
            place,
            bias is not None,
        )

    def _qk_norm(self, layer: int, W_Q: Tensor) -> QueryKeyNorm | None:
        names = self.family.qk_norm
        if names is None or (names.when and not names.when(self.config, layer)):
            return None
        query, key = (
            self._norm(f"{self._inside(layer)}.{name}", names, W_Q, width=W_Q.shape[2])
            for name in (names.query, names.key)
        )
        return QueryKeyNorm(query, key, names.whole, names.after_rotation)

    def positions(self, layer: int = 0) -> Positions:
        """Return how a layer knows positions."""
        return self[layer].positions

    def position_rows(self) -> Float[Tensor, "position model"]:
        """Return the table of learned positions, from position 0 on.

        Raises
        ------
        MissingTensor
            If the family has none.
        """
        name = self.family.places
        if name is None:
            raise MissingTensor(f"{self.family.name} has no table of positions")
        table = self.tensors.get(f"{name}.weight")
        table = self.tensors.need(name) if table is None else table
        return table.reshape(-1, table.shape[-1])[self.family.first_place :]

    def token_rows(self) -> Float[Tensor, "vocab model"]:
        """Return the table of token embeddings, as it is stored.

        Raises
        ------
        MissingTensor
            If the family has none, or the files lack it.
        """
        if self.family.tokens is None:
            raise MissingTensor(f"{self.family.name} has no table of tokens")
        return self.tensors.need(f"{self.family.tokens}.weight")


def from_module(module: torch.nn.Module, stack: str | None = None) -> AttentionLayers:
    """Return the attention of a loaded model of transformers, with or without a head on it.

    Parameters
    ----------
    module
        The model; its parameters are looked at where they are, and none is copied before a layer is asked for.
    stack
        Which of its stacks, where it has more than one: ``"encoder"``, ``"decoder"``, ``"text"``, ``"vision"``;
        default: the first that the table lists.

    Raises
    ------
    ValueError
        If the module is no model of transformers, its family is not read (with the reason, where it is known), or an
        option changes its attention to something that is not read.
    """
    config = getattr(module, "config", None)
    if not hasattr(config, "to_dict"):
        raise ValueError(f"module must be a model of transformers with a configuration, got {type(module).__name__}")
    return _choose(config, module_tensors(module), stack, type(module).__name__)


def from_checkpoint(
    checkpoint: Checkpoint, stack: str | None = None, dtype: torch.dtype = torch.float32
) -> AttentionLayers:
    """Return the attention of a model in files; no model is built, and only the tensors of a layer are read.

    Parameters
    ----------
    checkpoint
        As :func:`analysis.models.checkpoints.find` gives it: a folder with config.json and safetensors files.
    stack
        As in `from_module`.
    dtype
        What the tensors become.

    Raises
    ------
    NotFound, Tampered
        If a file is missing, or is not a whole safetensors file.
    ValueError
        As `from_module`; or if config.json describes no model.
    """
    return _choose(read_configuration(checkpoint), file_tensors(checkpoint, dtype), stack, checkpoint.name)


def read_configuration(checkpoint: Checkpoint) -> Config:
    """Return the configuration of a checkpoint, with the library's defaults for what config.json leaves out.

    Raises
    ------
    ValueError
        If the folder holds an adapter of another model, the family is not read, or the library cannot make a
        configuration of what config.json says.
    """
    from transformers import CONFIG_MAPPING

    if (checkpoint.folder / "adapter_config.json").exists():
        raise ValueError(f"{checkpoint.name} is an adapter of another model (adapter_config.json): merge the two first")
    settings = {
        key: value for key, value in raw_config(checkpoint).items() if key not in CALLERS and not key.startswith("_")
    }
    model_type = settings.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'} has model_type {model_type!r}, which transformers does not know"
        )
    _refuse_unknown(model_type, checkpoint.name)
    try:
        return CONFIG_MAPPING[model_type].from_dict(settings)
    except Exception as error:  # the library's validators raise what they like
        raise ValueError(
            f"{checkpoint.folder / 'config.json'} describes no {model_type}: {' '.join(str(error).split())}"
        ) from None


def families_of(model_type: str) -> tuple[Family, ...]:
    """Return the rows for a ``model_type``, one for each stack of such a model.

    >>> [row.name for row in families_of("mistral")]
    ['Llama, Mistral, Mixtral']
    >>> [row.stack for row in families_of("whisper")]
    ['encoder', 'decoder']
    """
    return tuple(row for row in FAMILIES if model_type in row.model_types)


def _refuse_unknown(model_type: str, name: str) -> None:
    if families_of(model_type):
        return
    reason = REFUSED.get(model_type)
    known = ", ".join(dict.fromkeys(kind for row in FAMILIES for kind in row.model_types))
    raise ValueError(
        f"{name} is of the family {model_type!r}"
        + (f", which is not read: {reason}" if reason else f"; these are read: {known}")
    )


def _choose(config: Config, tensors: Tensors, stack: str | None, name: str) -> AttentionLayers:
    """Take the first row whose tensors are there."""
    model_type = config.model_type
    _refuse_unknown(model_type, name)
    rows = families_of(model_type)
    if stack is not None and stack not in (stacks := [row.stack for row in rows]):
        raise ValueError(f"stack must be one of {', '.join(map(repr, stacks))} for {model_type}, got {stack!r}")
    for row in rows:
        if stack is not None and row.stack != stack:
            continue
        section = getattr(config, row.section, None) if row.section else None
        section = config if section is None else section
        path = row.layer.format(row.number(section, 0))
        own = tensors.for_family(row, f"{path}.{row.output}.weight")
        if own is not None:
            check_options(row, section, name)
            return AttentionLayers(row, model_type, section, own)
    raise MissingTensor(
        f"{name} is a {model_type} without the attention of its first layer: no "
        f"{rows[0].layer.format(0)}.{rows[0].output}.weight"
    )
