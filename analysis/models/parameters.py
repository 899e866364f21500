"""Reading just the tensors that are needed from files, in the shapes of :mod:`analysis.core.weights`.

Partial reads through ``safetensors.safe_open``; ``transformers`` is not imported. What a tensor is called is in
:mod:`analysis.models.configuration`, what becomes of it in :mod:`analysis.models.layers`.
"""

from collections.abc import Container

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.weights import MlpWeights
from analysis.models import configuration, layers
from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import ModelConfig, Shapes, read_config
from analysis.models.files import MissingTensor, check_dtype, open_file, raw_config, read_tensor, tensor_files
from analysis.models.memory import check_memory


def config(checkpoint: Checkpoint) -> ModelConfig:
    """Return what ``config.json`` says, in one vocabulary for all families; refusals as `configuration.read_config`."""
    return read_config(raw_config(checkpoint), str(checkpoint.folder / "config.json"), checkpoint.name)


def read(checkpoint: Checkpoint, *names: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Read tensors by name, whatever prefix (``transformer.``, ``bert.``) the file puts before them.

    Raises
    ------
    MissingTensor
        If a name is in none of the checkpoint's files.
    Tampered
        If a file is not a whole safetensors file.
    ValueError
        If a name is in the files twice, or the tensor is not of floating numbers, or one of them is not finite.
    """
    files = tensor_files(checkpoint)
    spelled = {name: _spelling(checkpoint, name, files) for name in names}
    if absent := [name for name in names if spelled[name] is None]:
        raise MissingTensor(f"tensor {absent[0]!r} is not in {', '.join(str(p) for p in checkpoint.files())}")
    return [read_tensor(files[spelled[name]], spelled[name], dtype) for name in names]


def _spelling(checkpoint: Checkpoint, name: str, names: Container[str]) -> str | None:
    """Return what the files call a tensor, ``None`` if they do not have it; refuse two spellings of one name."""
    spelled = [full for full in _spelled(name) if full in names]
    if len(spelled) > 1:
        raise ValueError(
            f"{checkpoint.name} has {' and '.join(map(repr, spelled))}, which are the same tensor: which "
            "is meant cannot be told"
        )
    return spelled[0] if spelled else None


def _fetch(checkpoint: Checkpoint, dtype: torch.dtype) -> layers.Fetch:
    """Return what reads tensors of given shapes from the files of a checkpoint."""

    def fetch(shapes: Shapes) -> list[Tensor]:
        tensors = read(checkpoint, *shapes, dtype=dtype)
        for tensor, (name, shape) in zip(tensors, shapes.items(), strict=True):
            _check_shape(checkpoint, name, shape, tuple(tensor.shape))
        return tensors

    return fetch


def _check_shape(checkpoint: Checkpoint, name: str, shape: tuple[int, ...], actual: tuple[int, ...]) -> None:
    if actual != shape:
        raise ValueError(f"tensor {name!r} of {checkpoint.name} must be {shape} as config.json has it, got {actual}")


def _spelled(name: str) -> list[str]:
    """List what a file may call a tensor: with or without the whole model's prefix, in older words."""
    older = [
        name.removesuffix(new) + old
        for family in configuration.FAMILIES
        for new, old in family.older.items()
        if name.endswith(new)
    ]
    prefixes = dict.fromkeys(prefix for family in configuration.FAMILIES for prefix in family.prefixes)
    return [prefix + spelling for spelling in (name, *older) for prefix in prefixes]


def _headers(checkpoint: Checkpoint) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype of every tensor in the files, reading headers only."""
    headers = {}
    for path in dict.fromkeys(tensor_files(checkpoint).values()):
        with open_file(path) as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is no dict
            headers |= {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}
    return headers


def check_tensors(checkpoint: Checkpoint, shapes: Shapes) -> None:
    """Refuse a checkpoint in which one of these tensors is there, and in another shape or of no floating numbers."""
    _missing(checkpoint, shapes, _headers(checkpoint))


def check_whole(checkpoint: Checkpoint, *, attention_only: bool = False) -> None:
    """Refuse a checkpoint that is not the whole model of its configuration, reading headers only.

    Parameters
    ----------
    attention_only
        Look for the layers' attention alone, which is enough to draw a model of the same shape.

    Raises
    ------
    MissingTensor
        If a tensor of a layer or a table is not there.
    Tampered
        If a file is truncated.
    ValueError
        If a tensor has another shape than config.json says, is there twice, or is not of floating numbers.
    """
    headers, settings = _headers(checkpoint), config(checkpoint)
    missing = []
    for layer in range(settings.layers):
        shapes = settings.projection_shapes(layer) if attention_only else settings.layer_shapes(layer)
        missing += _missing(checkpoint, shapes, headers)
        if layer == 0 and not attention_only:
            missing += _missing(checkpoint, settings.input_shapes(), headers)
    if missing:
        raise MissingTensor(
            f"{checkpoint.name} ({checkpoint.folder}) lacks {len(missing)} tensors of the whole model of "
            f"{settings.layers} layers, among them {missing[0]!r}: it can be read from, not run"
        )


def _missing(checkpoint: Checkpoint, shapes: Shapes, headers: dict[str, tuple[tuple[int, ...], str]]) -> list[str]:
    """Return the names that no file has; refuse a shape that is another one, and what holds no floating numbers."""
    missing = []
    for name, shape in shapes.items():
        spelled = _spelling(checkpoint, name, headers)
        if spelled is None:
            missing.append(name)
        else:
            _check_shape(checkpoint, name, shape, headers[spelled][0])
            check_dtype(name, headers[spelled][1], checkpoint.name)
    return missing


def has(checkpoint: Checkpoint, *names: str) -> bool:
    """Say whether the checkpoint holds all these tensors (headers only are read)."""
    files = tensor_files(checkpoint)
    return all(_spelling(checkpoint, name, files) is not None for name in names)


def has_tokens(checkpoint: Checkpoint) -> bool:
    """Say whether the checkpoint holds the table of token embeddings."""
    return has(checkpoint, *config(checkpoint).table_shapes("tokens"))


def attention_layer(checkpoint: Checkpoint, layer: int, dtype: torch.dtype = torch.float32) -> AttentionLayer:
    """Read one attention layer.

    Parameters
    ----------
    layer
        Counted from 0.

    Raises
    ------
    ValueError
        If there is no such layer, the family is not read, or a tensor has another shape than config.json says.
    MissingTensor
        If the files lack one of its tensors.
    """
    return layers.read_attention(config(checkpoint), layer, _fetch(checkpoint, dtype))


def layer_norm(checkpoint: Checkpoint, which: str, layer: int = 0, dtype: torch.dtype = torch.float32) -> Norm:
    """Read one LayerNorm.

    Parameters
    ----------
    which
        ``"attention"`` or ``"mlp"``: the one before that block (GPT-2) or after it (BERT);
        ``"final"`` (GPT-2) or ``"embeddings"`` (BERT): the one outside the layers.
    """
    return layers.read_layer_norm(config(checkpoint), which, layer, _fetch(checkpoint, dtype))


def positions(checkpoint: Checkpoint, dtype: torch.dtype = torch.float32) -> Float[Tensor, "position model"]:
    """Read the table of learned positions."""
    return _table(checkpoint, "positions", dtype)


def tokens(checkpoint: Checkpoint, dtype: torch.dtype = torch.float32) -> Float[Tensor, "vocab model"]:
    """Read the table of token embeddings."""
    return _table(checkpoint, "tokens", dtype)


def _table(checkpoint: Checkpoint, which: str, dtype: torch.dtype) -> Float[Tensor, "row model"]:
    settings = config(checkpoint)
    shapes = settings.table_shapes(which)
    if not shapes:
        raise MissingTensor(f"models of the family {settings.family.name} have no table of {which}")
    return _fetch(checkpoint, dtype)(shapes)[0]


def mlp(checkpoint: Checkpoint, layer: int, dtype: torch.dtype = torch.float32) -> MlpWeights:
    """Read one MLP."""
    return layers.read_mlp(config(checkpoint), layer, _fetch(checkpoint, dtype))


def random_attention_layer(
    config: ModelConfig, layer: int = 0, seed: int = 0, dtype: torch.dtype = torch.float32
) -> AttentionLayer:
    """Draw one attention layer as the family initialises it: the control for weight-only measurements.

    Weights are normal with the configuration's ``initializer_range`` (0.02), biases are zero; GPT-2 divides
    ``W_O`` by ``sqrt(2 layers)``. The draw depends on ``seed`` and ``layer`` alone.

    Raises
    ------
    MemoryError
        If four matrices of the configured width do not fit into memory.
    """
    model = config.model
    check_memory(4 * model**2 * 8, f"an attention layer of width {model}")
    generator = torch.Generator().manual_seed(1_000_003 * seed + layer)
    Ws = [
        torch.randn(model, model, generator=generator, dtype=torch.float64) * config.initializer_range for _ in range(4)
    ]
    if config.family.shrinks_output:
        Ws[3] /= (2 * config.layers) ** 0.5
    *projections, W_O = (W.to(dtype) for W in Ws)
    W_Q, W_K, W_V = (W.reshape(model, config.heads, -1).transpose(0, 1).contiguous() for W in projections)
    return AttentionLayer(
        W_Q,
        W_K,
        W_V,
        W_O.reshape(config.heads, -1, model),
        *torch.zeros(3, config.heads, config.channel, dtype=dtype),
        torch.zeros(model, dtype=dtype),
        mask=Mask(causal=config.causal),
    )
