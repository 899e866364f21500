"""Layers that are uniform, layers that only look so, and the layer that is nothing but a mean."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.axes import Residual
from analysis.decomposition import folding, uniform
from analysis.models.reference_modules import attention_module
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import apply_norm
from book.studies.shared.equality import draw, random_layer


@dataclass(frozen=True)
class Case:
    """A layer with its possible inputs: the two sizes that let it tell keys apart, and its distance from ``1 / i``."""

    layer: AttentionLayer
    x: Float[Tensor, "position model"]
    hull: uniform.Hull | None
    content: float
    constant: float
    distance: float

    @property
    def uniform(self) -> bool:
        """Whether the weights are uniform to rounding."""
        return self.distance < 1e-9


@dataclass(frozen=True)
class MeanLayer:
    """The layer that is nothing but a mean, run in GPT2Attention with three heads, and with one of full width.

    ``own_share`` is the share of the own input in each row of the residual stream behind it; ``rows_apart`` the
    smallest distance between two of its output rows on random input; ``narrow_rank`` the rank of the summed folded
    maps of two random heads of width 4, where the stream has width 12.
    """

    layer: AttentionLayer
    error: float
    one_head_error: float
    attention_error: float
    own_share: np.ndarray
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    rows_apart: float
    narrow_rank: int


def measure_cases(layer: AttentionLayer, x: Residual) -> dict[str, Case]:
    """Measure layers that are uniform, that look uniform and are not, and that are on some inputs only."""
    where, zero, no_bias = x.device, torch.zeros_like(layer.W_Q), torch.zeros_like(layer.b_Q)
    norm = Norm(draw(12, seed=3, device=where) + 2, draw(12, seed=4, device=where))
    flat = replace(norm, gain=torch.ones_like(norm.gain))
    half = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64, device=where)
    orthogonal = replace(layer, W_Q=layer.W_Q * half, b_Q=layer.b_Q * half, W_K=layer.W_K * (1 - half))
    equal_rows = replace(layer, W_K=torch.ones_like(layer.W_K) * draw(3, 1, 4, device=where))
    over_gain = replace(layer, W_K=equal_rows.W_K / norm.gain[:, None])
    one_hot = torch.eye(12, dtype=torch.float64, device=where)[[3, 1, 3, 0, 11, 5, 5, 2, 1]]
    return {
        "all of W_Q, W_K, b_Q zero": measure_case(replace(layer, W_Q=zero, W_K=zero, b_Q=no_bias), x),
        "W_K zero, any biases": measure_case(replace(layer, W_K=zero), x),
        "W_Q and b_Q zero, b_K huge": measure_case(replace(layer, W_Q=zero, b_Q=no_bias, b_K=100 * layer.b_K), x),
        "queries and keys orthogonal": measure_case(orthogonal, x),
        "W_Q zero, b_Q not": measure_case(replace(layer, W_Q=zero), x),
        "equal rows in W_K, any input": measure_case(equal_rows, x),
        "equal rows in W_K, one-hot input": measure_case(equal_rows, one_hot, uniform.one_hot_input(12, device=where)),
        "equal rows in W_K, LayerNorm of unit gain": measure_case(
            equal_rows, apply_norm(x, flat), uniform.layer_norm_output(flat)
        ),
        "rows of W_K over gain, LayerNorm": measure_case(
            over_gain, apply_norm(x, norm), uniform.layer_norm_output(norm)
        ),
        "equal rows in W_Q, LayerNorm, bias": measure_case(
            replace(layer, W_Q=zero + 1, b_Q=no_bias), apply_norm(x, flat), uniform.layer_norm_output(flat)
        ),
    }


def measure_case(layer: AttentionLayer, x: Residual, hull: uniform.Hull | None = None) -> Case:
    """Return the largest of each size over heads, and how far the causal weights are from ``1 / i``."""
    sizes = uniform.key_preference(layer, hull)
    away = attend(x, replace(layer, mask=Mask(causal=True))).attention - uniform.uniform_causal(len(x)).to(x.device)
    return Case(layer, x, hull, sizes.content.max().item(), sizes.constant.max().item(), away.abs().max().item())


def measure_mean_layer(x: Residual) -> MeanLayer:
    """Run the layer that returns the mean in GPT2Attention, on random rows and, to see shares, on one-hot rows."""
    layer = uniform.mean_layer(12, head=3, channel=4).to(x.device)
    run = attention_module("gpt2", layer)
    output, attention = (result[0] for result in run(x[None]))
    one_head, _ = attention_module("gpt2", uniform.mean_layer(12, head=1, channel=12).to(x.device))(x[None])
    one_hot = torch.eye(12, dtype=torch.float64, device=x.device)
    stream = one_hot + run(one_hot[None])[0][0]
    return MeanLayer(
        layer=layer,
        error=(output - uniform.cumulative_means(x)).abs().max().item(),
        one_head_error=(one_head[0] - uniform.cumulative_means(x)).abs().max().item(),
        attention_error=(attention - uniform.uniform_causal(len(x)).to(x.device)).abs().max().item(),
        own_share=(stream.diagonal() / stream.sum(-1)).cpu().numpy(),
        shapes=(tuple(x.shape), tuple(output.shape)),
        rows_apart=torch.pdist(output).min().item(),
        narrow_rank=int(torch.linalg.matrix_rank(folding.fold_values(random_layer(2, 12, 4)).W_VO.sum(0))),
    )
