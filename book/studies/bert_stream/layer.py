"""What the heads hand on, and what LayerNorm does to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import Norm
from analysis.transformer.activations import LayerActivations
from analysis.transformer.head_layout import concatenate
from analysis.transformer.layernorm import apply_norm, jacobian, normalise, sigma
from book.studies.bert_stream.algebra import largest_error, relative_error
from book.studies.bert_stream.networks import Network, Subject


@dataclass(frozen=True)
class Heads:
    """Formula (5.8) held to the modules of the model."""

    errors: Mapping[str, float]
    """Largest difference from the model's modules: ``heads`` before W_O and b_O, ``attention_output`` after them."""
    without_output: float
    """How far the head outputs are from the attention's output, relative to it: what W_O and b_O do."""
    one_map: float
    """How far the head outputs are off, relative to them, if all heads have the attention map of the first."""


@dataclass(frozen=True)
class Normalisation:
    """The first LayerNorm: errors of its formulas, and how much it changes rows."""

    formula_error: float
    doubled_error: float
    """Largest entry of LN(2x) - LN(x), without gain and bias."""
    additivity_error: float
    """LN(x + y) against LN(x) + LN(y), without gain and bias: relative to LN(x + y)."""
    largest_row_sum: float
    length_error: float
    """Largest difference of a plain row's squared length from the number of its coordinates."""
    negative: float
    """The share of negative entries in plain rows."""
    negative_written: float
    """The same in the rows with gain and bias."""
    written_sums: tuple[float, float]
    """The least and the largest sum of such a row."""
    change: Mapping[str, float]
    """By network: how much the first LayerNorms change a text's rows, relative to their length, on average."""
    other_rows: float
    """Largest change of row 0 of the output when all other rows of the input change."""
    jacobian_error: float
    third_singular: float
    """Of the Jacobian less its diagonal part, which has rank 2."""


def measure_heads(subject: Subject, trained: Network) -> Heads:
    """Compare the head outputs and the attention's output of the first text with what the model's modules compute."""
    stations = trained.stations[subject.level][0]
    modules = _outputs_of_modules(trained.model.encoder.layer[subject.level], stations.x)
    one_map = concatenate(stations.attention[:1] @ stations.values)
    return Heads(
        errors={name: largest_error(getattr(stations, name), output) for name, output in modules.items()},
        without_output=relative_error(stations.heads, stations.attention_output),
        one_map=relative_error(one_map, stations.heads),
    )


def _outputs_of_modules(layer: torch.nn.Module, rows: Tensor) -> dict[str, Tensor]:
    """Run a layer of the model itself, and return what its attention computes before and after W_O and b_O."""
    outputs = {}

    def keep(name: str, module: torch.nn.Module, inputs: tuple, output: Tensor | tuple) -> None:
        outputs[name] = (output[0] if isinstance(output, tuple) else output)[0].double()

    hooks = [
        layer.attention.self.register_forward_hook(partial(keep, "heads")),
        layer.attention.output.dense.register_forward_hook(partial(keep, "attention_output")),
    ]
    with torch.no_grad():
        layer(rows.to(layer.output.dense.weight.dtype)[None])
    for hook in hooks:
        hook.remove()
    return outputs


def measure_normalisation(subject: Subject, networks: Mapping[str, Network]) -> Normalisation:
    """Test what the paper says of LayerNorm on the rows that the first one of the layer reads."""
    rows, norm = subject.before_first, subject.layer.norm_attention
    others = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    plain, moved, written = normalise(rows), rows.clone(), apply_norm(rows, norm)
    moved[1:] += 1
    jacobian_error, third_singular = _compare_jacobian(rows[0], norm)
    return Normalisation(
        formula_error=largest_error(_written_out(rows, norm), apply_norm(rows, norm)),
        doubled_error=largest_error(normalise(2 * rows), plain),
        additivity_error=relative_error(plain + normalise(others), normalise(rows + others)),
        largest_row_sum=plain.sum(1).abs().max().item(),
        length_error=(plain.square().sum(1) - subject.width).abs().max().item(),
        negative=(plain < 0).double().mean().item(),
        negative_written=(written < 0).double().mean().item(),
        written_sums=(written.sum(1).min().item(), written.sum(1).max().item()),
        change={name: _mean_change(network.stations) for name, network in networks.items()},
        other_rows=largest_error(apply_norm(moved, norm)[0], apply_norm(rows, norm)[0]),
        jacobian_error=jacobian_error,
        third_singular=third_singular,
    )


def _written_out(rows: Tensor, norm: Norm) -> Tensor:
    """Apply LayerNorm in the matrices of the corrected (5.9)."""
    ones = rows.new_ones(rows.shape[1], 1)
    return (rows - rows @ ones @ ones.T / len(ones)) / sigma(rows, norm.eps)[:, None] * norm.gain + norm.bias


def _mean_change(by_layer: list[list[LayerActivations]]) -> float:
    return float(
        np.mean([relative_error(stations.first, stations.before_first) for texts in by_layer for stations in texts])
    )


def _compare_jacobian(row: Tensor, norm: Norm) -> tuple[float, float]:
    """Compare the closed form of LayerNorm's Jacobian with autograd; return also its third singular value.

    That is of what is left when the Jacobian is divided by gain and 1/sigma, and the identity is taken away.
    """
    exact = torch.func.jacrev(partial(apply_norm, norm=norm))(row)
    identity = torch.eye(len(row), dtype=row.dtype, device=row.device)
    low_rank = exact / norm.gain[:, None] * sigma(row, norm.eps) - identity
    return largest_error(jacobian(row, norm), exact), torch.linalg.svdvals(low_rank)[2].item()
