"""How far the adapter's attention is from the model's own: every layer of a model run both ways on one input.

What belongs here: running a model of transformers beside :mod:`analysis.transformer.attention` on what each of
its layers read. What does not: reading the model (:mod:`analysis.models.reading`).
"""

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from analysis.core.attention_layer import Norm
from analysis.models.reading import Model
from analysis.transformer.attention import apply_norm, attend


class _InDouble(TorchFunctionMode):
    """Lets a model that asks for float32 compute in float64: its softmax, its angles, its norms."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {name: _doubled(value) for name, value in (kwargs or {}).items()}
        if func is Tensor.float:
            func = Tensor.double
        return func(*map(_doubled, args), **kwargs)


def _doubled(value):
    return torch.float64 if value is torch.float32 else value


@dataclass(frozen=True)
class LayerRun:
    """What one attention layer of a model read, its own attention, and what it wrote before any norm.

    ``norms`` holds what went into each of its norms and came out, in the order of `AttentionLayer.norms`.
    """

    read: Tensor
    attention: Tensor
    written: Tensor
    norms: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Agreement:
    """The largest differences between the adapter's attention and the model's own, over all layers.

    Attributes
    ----------
    attention
        Of entries of the maps.
    output
        Of what the layers write, in parts of its largest entry.
    norm
        Of what their norms make of a row, in parts of the largest entry, and of what stands before or after them: what
        a norm before the layer returns is what the layer reads, and so on. 0 where there is none.
    """

    attention: float
    output: float
    norm: float


@dataclass
class _Seen:
    """What passed by, by path of a module, in the order in which it did: layers may share their modules."""

    into: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    out: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))


def run_layers(
    model: torch.nn.Module, read: Model, inputs: Mapping[str, Tensor], *, in_double: bool = False
) -> list[LayerRun]:
    """Run a model and return what each attention layer of a stack read, did and wrote.

    Parameters
    ----------
    model
        In evaluation mode, with eager attention.
    read
        What `load` returns for it.
    inputs
        Arguments of the model.
    in_double
        Whether the model computes in float64 what it would compute in float32 of its own accord, such as its softmax
        or the angles of rotary positions. Its parameters should be in float64 then.

    Raises
    ------
    ValueError
        If the model returns no attention.
    """
    seen = _Seen()
    mode = _InDouble() if in_double else nullcontext()
    with torch.no_grad(), _default_dtype(next(model.parameters()).dtype), _watch(model, read, seen), mode:
        result = model(**inputs, output_attentions=True)
    result = getattr(result, f"{read.family.stack}_model_output", result)  # a model that joins two
    names = [f"{read.family.stack}_attentions", "attentions"]
    maps = next((getattr(result, name) for name in names if getattr(result, name, None)), None)
    if maps is None or any(each is None for each in maps):
        raise ValueError(f"{type(model).__name__} returns no attention: build it with attn_implementation='eager'")
    return [
        LayerRun(
            seen.into[into].pop(0),
            maps[i],
            seen.out[out].pop(0),
            tuple((seen.into[norm].pop(0), seen.out[norm].pop(0)) for norm in norms),
        )
        for i, (into, out, norms) in enumerate(_paths(read))
    ]


def _paths(read: Model) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name the modules of each layer: the values' map, which reads nothing else, the output's, the norms."""
    for layer in range(len(read.layers)):
        path, maps = read.path(layer), read.family.maps
        yield f"{path}.{maps.names[-1]}", f"{path}.{read.family.output}", read.norm_paths(layer)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let numbers that a model makes without naming a dtype be of its own."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _note(seen: _Seen, path: str, module: torch.nn.Module, args: tuple, output: Tensor) -> None:
    seen.into[path].append(args[0])
    seen.out[path].append(output)


@contextmanager
def _watch(model: torch.nn.Module, read: Model, seen: _Seen) -> Iterator[None]:
    """Look at what goes into the modules of the layers and what comes out."""
    modules = dict(model.named_modules())
    paths = dict.fromkeys(path for into, out, norms in _paths(read) for path in (into, out, *norms))
    with ExitStack() as stack:
        for path in paths:
            stack.callback(modules[path].register_forward_hook(functools.partial(_note, seen, path)).remove)
        yield


def agreement(
    model: torch.nn.Module, read: Model, inputs: Mapping[str, Tensor], *, in_double: bool = False
) -> Agreement:
    """Compare the adapter's attention with the model's own in every layer; queries that are padding are left out.

    >>> from analysis.models.reading import load
    >>> from analysis.models.families.tiny import tiny_inputs, tiny_model
    >>> model = tiny_model("gpt2")
    >>> agreement(model, load(model), tiny_inputs(model)).attention < 1e-12
    True
    """
    keep = inputs.get("decoder_attention_mask" if read.family.stack == "decoder" else "attention_mask")
    keep = None if keep is None else keep.bool()
    attention, output, norms = [], [], [0.0]
    for layer, run in zip(read.layers, run_layers(model, read, inputs, in_double=in_double), strict=True):
        ours = attend(run.read, layer, keep=keep)
        real = torch.ones(run.read.shape[:-1], dtype=torch.bool, device=run.read.device) if keep is None else keep
        attention.append((ours.attention - run.attention).abs().transpose(-3, -2)[real].max().item())
        output.append(_relative(ours.output[real], run.written[real]))
        norms += [_norm_error(norm, run, *passed, real) for norm, passed in zip(layer.norms, run.norms, strict=True)]
    return Agreement(max(attention), max(output), max(norms))


def _relative(ours: Tensor, theirs: Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def _norm_error(norm: Norm, run: LayerRun, into: Tensor, out: Tensor, real: Tensor) -> float:
    """Return the larger error of a norm itself and of where it stands."""
    itself = _relative(apply_norm(into, norm)[real], out[real])
    place = {"input": (out, run.read), "update": (into, run.written), "sum": (into, run.read + run.written)}[norm.place]
    return max(itself, _relative(*(each[real] for each in place)))
