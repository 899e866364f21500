"""How far the adapter's attention is from the model's own: every layer of a model run both ways on one input.

What belongs here: running a model of transformers beside :mod:`analysis.transformer.general_attention` on what each of
its layers read. What does not: reading the model (:mod:`analysis.models.families`).
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from analysis.models.families import AttentionLayers
from analysis.transformer.general_attention import attend_generally


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
    """What one attention layer of a model read, its own attention, and what it wrote before any norm."""

    read: Tensor
    attention: Tensor
    written: Tensor


@dataclass(frozen=True)
class Agreement:
    """The largest differences between the adapter's attention and the model's own, over all layers.

    Attributes
    ----------
    attention
        Of entries of the maps.
    output
        Of what the layers write, in parts of its largest entry.
    """

    attention: float
    output: float


@dataclass
class _Seen:
    read: dict[int, Tensor] = field(default_factory=dict)
    written: dict[int, Tensor] = field(default_factory=dict)


def run_layers(model: torch.nn.Module, layers: AttentionLayers, inputs: Mapping[str, Tensor], *,
               in_double: bool = False) -> list[LayerRun]:
    """Run a model and return what each attention layer of a stack read, did and wrote.

    Parameters
    ----------
    model
        In evaluation mode, with eager attention.
    layers
        What `from_module` returns for it.
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
    with torch.no_grad(), _watch(model, layers, seen), _InDouble() if in_double else nullcontext():
        result = model(**inputs, output_attentions=True)
    names = [f"{layers.family.stack}_attentions", "attentions"]
    maps = next((getattr(result, name) for name in names if getattr(result, name, None)), None)
    if maps is None or any(each is None for each in maps):
        raise ValueError(f"{type(model).__name__} returns no attention: build it with attn_implementation='eager'")
    return [LayerRun(seen.read[i], maps[i], seen.written[i]) for i in range(len(layers))]


@contextmanager
def _watch(model: torch.nn.Module, layers: AttentionLayers, seen: _Seen) -> Iterator[None]:
    """Look at what goes into the queries' map and what comes out of the output's."""
    modules = dict(model.named_modules())
    counts = {"read": 0, "written": 0}

    def note(which: str, tensor: Tensor) -> None:  # in the order of layers, which may share their modules
        getattr(seen, which)[counts[which]] = tensor
        counts[which] += 1

    with ExitStack() as stack:
        for path in dict.fromkeys(layers.path(layer) for layer in range(len(layers))):
            into, out = (modules[f"{path}.{name}"] for name in (layers.family.maps.names[0], layers.family.output))
            stack.callback(into.register_forward_pre_hook(lambda _, args: note("read", args[0])).remove)
            stack.callback(out.register_forward_hook(lambda _, __, output: note("written", output)).remove)
        yield


def agreement(model: torch.nn.Module, layers: AttentionLayers, inputs: Mapping[str, Tensor], *,
              in_double: bool = False) -> Agreement:
    """Compare the adapter's attention with the model's own in every layer; queries that are padding are left out.

    >>> from analysis.models.families import from_module
    >>> from analysis.models.families.tiny import tiny_inputs, tiny_model
    >>> model = tiny_model("gpt2")
    >>> agreement(model, from_module(model), tiny_inputs(model)).attention < 1e-12
    True
    """
    keep = inputs.get("attention_mask")
    keep = None if keep is None else keep.bool()
    attention, output = [], []
    for layer, run in zip(layers, run_layers(model, layers, inputs, in_double=in_double), strict=True):
        ours = attend_generally(run.read, layer, keep=keep)
        real = torch.ones(run.read.shape[:-1], dtype=torch.bool, device=run.read.device) if keep is None else keep
        difference = (ours.attention - run.attention).abs().transpose(-3, -2)[real]
        attention.append(difference.max().item())
        output.append(((ours.output - run.written).abs()[real].max() / run.written[real].abs().max()).item())
    return Agreement(max(attention), max(output))
