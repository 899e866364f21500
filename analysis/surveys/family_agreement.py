"""How far the adapter's attention is from the model's own: every layer of a model run both ways on one input."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from analysis.core.attention_layer import Norm
from analysis.models.inputs import places, real_rows
from analysis.models.reading import Model
from analysis.surveys.layer_runs import LayerRun, run_layers
from analysis.transformer.attention import apply_norm, attend


@dataclass(frozen=True)
class Agreement:
    """The largest differences between the adapter's attention and the model's own, over all layers.

    Attributes
    ----------
    attention
        Error of the entries of the maps.
    output
        Error of what the layers write, relative to its largest entry.
    norm
        Of what their norms make of a row, in parts of the largest entry, and of what stands before or after them: what
        a norm before the layer returns is what the layer reads, and so on. 0 where there is none.
    """

    attention: float
    output: float
    norm: float


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
    keep = real_rows(read, inputs)
    attention, output, norms = [], [], [0.0]
    for layer, run in zip(read.layers, run_layers(model, read, inputs, in_double=in_double), strict=True):
        ours = attend(run.read, layer, keep=keep, positions=places(read, layer.positions, inputs))
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
