"""Control levels of a trained network: random weights, random weights as large, its own weights out of order.

A statement that training did something is compared with every level. What only the first lacks is a matter of scale.
"""

import copy
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.precision import default_dtype
from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import families_of
from analysis.models.families import Family
from analysis.models.families.expected import count_groups
from analysis.models.memory import check_memory
from analysis.models.reading import Model, load

SEEDS = range(5)
RANDOM, LARGE, PERMUTED = LEVELS = ("random", "random, as large", "permuted")
"""Random initialisation; each of its matrices scaled to the norm of the trained one; the trained entries permuted."""
SHARP = "random, W_Q and W_K as large"
"""Between the first two levels: of the random matrices only those of queries and keys are scaled."""
CHUNK = 2**20
"""Entries of a matrix that are moved at a time."""
NETWORKS = ("trained", *LEVELS)
"""The trained network, and its controls level by level."""


class Control(NamedTuple):
    """One control: its level, its seed, and the network."""

    level: str
    seed: int
    network: Any


class _Matrix(NamedTuple):
    """A view of one weight matrix, so that what is done to it in place is done to the network."""

    makes_scores: bool
    weight: Tensor


def make_controls(
    trained: Any,
    initialise: Callable[[int], Any] | None = None,
    *,
    levels: Iterable[str] = LEVELS,
    seeds: Iterable[int] = SEEDS,
) -> Iterator[Control]:
    """Yield every control of a trained network, seed by seed; only one is held at a time.

    Parameters
    ----------
    trained
        A model as `load` takes it, any other module, weights of one layer (`AttentionLayer`, `MlpWeights`,
        `EncoderLayer`), or a list of layers.
    initialise
        Makes the same with random weights from a seed; default: `fresh_model`, for a model of transformers.
    levels
        Control levels: names from :data:`LEVELS`, or :data:`SHARP`.

    Raises
    ------
    ValueError
        If a control level is unknown, or the random network is not built as the trained one.
    TypeError
        If there is no default for ``initialise``.

    Examples
    --------
    >>> [control.level for control in make_controls("gpt2-mini", seeds=[0])]
    ['random', 'random, as large', 'permuted']
    """
    if isinstance(trained, str | Path | Checkpoint | Model):
        trained = load(trained).module
    if initialise is None:
        if not hasattr(trained, "config"):
            raise TypeError(f"give initialise, which makes the random {type(trained).__name__} of a seed")
        initialise = functools.partial(fresh_model, trained)
    levels = tuple(levels)
    if unknown := set(levels) - {*LEVELS, SHARP}:
        raise ValueError(f"levels must be of {', '.join((*LEVELS, SHARP))}, got {', '.join(sorted(unknown))}")
    make = {
        RANDOM: initialise,
        LARGE: lambda seed: scale_matrices(initialise(seed), trained),
        PERMUTED: lambda seed: permute_entries(trained, seed),
        SHARP: lambda seed: scale_matrices(initialise(seed), trained, scores_only=True),
    }
    for seed in seeds:
        for level in levels:
            yield Control(level, seed, make[level](seed))


def fresh_model(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Return a model of the same configuration with random weights, as its library initialises it."""
    dtype = next(model.parameters()).dtype  # made in another, it would take twice the memory
    with torch.random.fork_rng(devices=[]), default_dtype(dtype):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.eval().requires_grad_(False).to(model.device)


def random_attention_layer(
    model: Model, layer: int = 0, seed: int = 0, dtype: torch.dtype = torch.float32
) -> AttentionLayer:
    """Draw one attention layer as a GPT-2 or a BERT initialises it: the control for weight-only measurements.

    Weights are normal with the configuration's ``initializer_range`` (0.02), biases are zero; GPT-2 divides
    ``W_O`` by ``sqrt(2 layers)``. The draw depends on ``seed`` and ``layer`` alone.

    Raises
    ------
    ValueError
        If the model is of another family.
    MemoryError
        If four matrices of the configured width do not fit into memory.
    """
    if model.rest is None:
        raise ValueError(f"model must be a GPT-2 or a BERT, got a {model.config.model_type}")
    width = model.width
    check_memory(4 * width**2 * 8, f"an attention layer of width {width}")
    # Drawn in float64, so that a draw is the same in every dtype.
    generator = torch.Generator().manual_seed(1_000_003 * seed + layer)
    deviation = model.config.initializer_range
    Ws = [torch.randn(width, width, generator=generator, dtype=torch.float64) * deviation for _ in range(4)]
    if model.rest.shrinks_output:
        Ws[3] /= (2 * len(model.layers)) ** 0.5
    *projections, W_O = (W.to(dtype) for W in Ws)
    W_Q, W_K, W_V = (W.reshape(width, model.heads, -1).transpose(0, 1).contiguous() for W in projections)
    W_O, biases = W_O.reshape(model.heads, -1, width), torch.zeros(3, model.heads, model.channel, dtype=dtype)
    return AttentionLayer(W_Q, W_K, W_V, W_O, *biases, torch.zeros(width, dtype=dtype), mask=Mask(causal=model.causal))


@torch.no_grad()
def scale_matrices(random: Any, trained: Any, *, scores_only: bool = False) -> Any:
    """Return a copy of a random network whose every matrix has the Frobenius norm of the trained one.

    Vectors, which are biases and the gains of LayerNorms, stay as they were initialised.

    Parameters
    ----------
    random, trained
        As in `make_controls`.
    scores_only
        Scale ``W_Q`` and ``W_K`` alone, so that maps are as sharp and nothing else is changed.

    Raises
    ------
    ValueError
        If both are not built alike, or ``scores_only`` meets a module whose queries and keys have no known names.

    Examples
    --------
    >>> small, large = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> _ = nn.init.constant_(small.weight, 1.0), nn.init.constant_(large.weight, 5.0)
    >>> scale_matrices(small, large).weight.data.round(decimals=3)
    tensor([[5., 5.]])
    """
    scaled = copy.deepcopy(random)
    scale_in_place(scaled, trained, scores_only=scores_only)
    return scaled


@torch.no_grad()
def scale_in_place(random: Any, trained: Any, *, scores_only: bool = False) -> None:
    """Scale a random network as :func:`scale_matrices` does, in the memory that it has.

    Examples
    --------
    >>> small, large = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> _ = nn.init.constant_(small.weight, 1.0), nn.init.constant_(large.weight, 5.0)
    >>> scale_in_place(small, large)
    >>> small.weight.data.round(decimals=3)
    tensor([[5., 5.]])
    """
    matrices, models = _matrices(random), _matrices(trained)
    if [each.weight.shape for each in matrices] != [each.weight.shape for each in models]:
        raise ValueError("random and trained must be of one architecture: their matrices have other shapes")
    if scores_only and not any(each.makes_scores for each in models):
        raise ValueError(f"the queries and keys of {type(trained).__name__} are not known by name")
    for matrix, model in zip(matrices, models, strict=True):
        norm = matrix.weight.norm()
        if norm > 0 and (matrix.makes_scores or not scores_only):
            matrix.weight.mul_(model.weight.norm() / norm)


@torch.no_grad()
def permute_entries(trained: Any, seed: int) -> Any:
    """Return a copy of a network in which the entries of every matrix are shuffled; vectors stay as they are.

    A matrix is that of a whole layer, so entries also move between heads. A layer's norm and every matrix's values
    are kept, and what their order was is lost.

    Examples
    --------
    >>> trained = nn.Linear(2, 2)
    >>> permuted = permute_entries(trained, seed=0)
    >>> torch.equal(permuted.weight.flatten().sort().values,
    ...             trained.weight.flatten().sort().values)
    True
    """
    permuted = copy.deepcopy(trained)
    _permute(_matrices(permuted), _matrices(trained), seed)
    return permuted


@torch.no_grad()
def permute_into(network: nn.Module, trained: nn.Module, seed: int) -> None:
    """Make a network the one that :func:`permute_entries` returns, in its own memory; what it holds is lost.

    Examples
    --------
    >>> trained, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> permute_into(other, trained, seed=0)
    >>> torch.equal(other.weight, permute_entries(trained, seed=0).weight)
    True
    """
    for mine, own in ((network.parameters(), trained.parameters()), (network.buffers(), trained.buffers())):
        for tensor, source in zip(mine, own, strict=True):
            tensor.copy_(source)
    _permute(_matrices(network), _matrices(trained), seed)


def _permute(targets: Iterable[_Matrix], sources: Iterable[_Matrix], seed: int) -> None:
    """Write the entries of each source into its target, in random order; a part at a time, to need little memory."""
    generator = torch.Generator().manual_seed(seed)
    for (_, target), (_, source) in zip(targets, sources, strict=True):
        small = torch.int32 if source.numel() < 2**31 else torch.int64  # the order is the same, in half of the memory
        order = torch.randperm(source.numel(), generator=generator, dtype=small)
        entries = source.flatten()
        shuffled = target if target.is_contiguous() else torch.empty_like(target, memory_format=torch.contiguous_format)
        flat = shuffled.view(-1)
        for begin in range(0, len(order), CHUNK):
            flat[begin : begin + CHUNK] = entries[order[begin : begin + CHUNK].to(entries.device)]
        if shuffled is not target:
            target.copy_(shuffled)


def _matrices(network: Any) -> list[_Matrix]:
    """List the weight matrices of a module, of a layer's weights, or of layers, always in the same order."""
    if isinstance(network, nn.Module):
        return [part for name, W in network.named_parameters() if W.ndim == 2 for part in _split(name, W, network)]
    if isinstance(network, Sequence):
        return [matrix for layer in network for matrix in _matrices(layer)]
    values = {field.name: getattr(network, field.name) for field in fields(network)}
    own = [_Matrix(name in ("W_Q", "W_K"), value) for name, value in values.items() if name.startswith("W_")]
    return own + [matrix for of in values.values() if hasattr(of, "__dataclass_fields__") for matrix in _matrices(of)]


def _split(name: str, weight: Tensor, module: nn.Module) -> list[_Matrix]:
    """Cut a matrix that holds queries, keys and values into these three, and say which make scores."""
    pattern = re.sub(r"(?<=\.)\d+(?=\.)", "{}", name).removesuffix(".weight")
    for row in families_of(getattr(getattr(module, "config", None), "model_type", "")):
        for place, known in enumerate(row.maps.names):
            if pattern.endswith(f"{row.layer}.{known}"):
                fused = len(row.maps.names) == 1
                parts = _views(weight, row, module.config) if fused else {place: weight}
                return [_Matrix(i < 2, part) for i, part in parts.items()]
    return [_Matrix(False, weight)]


def _views(weight: Tensor, row: Family, config: Any) -> dict[int, Tensor]:
    """Return queries (0), keys (1) and values (2) of a fused matrix as views of it."""
    heads = getattr(config, row.heads)
    groups = count_groups(row, config)
    if row.maps.layout == "blocks":
        along = int(row.maps.inputs_first)
        channel = weight.shape[along] // (heads + 2 * groups)
        return dict(enumerate(weight.split((heads * channel, groups * channel, groups * channel), along)))
    if row.maps.layout == "codegen":
        queries, values, keys = weight.unflatten(0, (4, 3, -1)).unbind(1)
        return {0: queries, 1: keys, 2: values}
    share = heads // groups
    return dict(enumerate(weight.unflatten(0, (groups, share + 2, -1)).split((share, 1, 1), dim=1)))
