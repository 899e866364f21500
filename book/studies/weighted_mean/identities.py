"""What is exact: means of prefixes, maps folded out of the mean, layers that are uniform and that only look so."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.axes import Attention, Residual
from analysis.decomposition import folding, uniform
from analysis.transformer.attention import attend, project
from analysis.transformer.layernorm import apply_norm
from book import publish
from book.lab.reference_modules import attention_module
from book.publish import Inputs
from book.studies.shared.equality import draw, gaps, random_layer

REWRITINGS = ("weighted inputs, folded", "module with b_V moved")
ONE_MAP = "one mean attention for all heads"


@dataclass(frozen=True)
class Word:
    """The word 'bab' over three letters, and what the document's two listings make of it.

    All arrays are 3 x 3. ``rows`` are the one-hot letters, ``weights`` the uniform causal weights, ``product`` the
    means of the prefixes. ``folded`` is the second listing, with VO = I and bo = 0, and ``shifted`` the same with
    bo = 1.
    """

    rows: np.ndarray
    weights: np.ndarray
    product: np.ndarray
    listing_weights: np.ndarray
    listing_product: np.ndarray
    folded: np.ndarray
    shifted: np.ndarray


@dataclass(frozen=True)
class RandomLayer:
    """A random causal layer of three heads of width 4 on nine random rows.

    ``visible`` holds the weights on the position itself and on those before it, ``future`` all others. ``errors`` are
    the largest differences between two ways to compute the same thing. ``first_row_off`` is how far the first output
    row, whose query sees itself alone, is from that input.
    """

    layer: AttentionLayer
    x: Float[Tensor, "position model"]
    visible: np.ndarray
    future: np.ndarray
    errors: Mapping[str, float]
    first_row_off: float


def measure_word(word: str = "bab", alphabet: str = "abc") -> Word:
    """Encode a word with one row a letter, and run the document's two listings on it."""
    rows = np.eye(len(alphabet))[[alphabet.index(letter) for letter in word]]
    weights = uniform.uniform_causal(len(word)).numpy()
    positions, letters = rows.shape
    listing = np.tri(positions) * (1.0 / np.arange(1, positions + 1)).reshape(-1, 1)
    folded, shifted = (listing @ rows @ np.identity(letters) + bo for bo in (np.zeros(letters), np.ones(letters)))
    return Word(rows, weights, weights @ rows, listing, listing @ rows, folded, shifted)


def measure_random_layer(layer: AttentionLayer, x: Residual) -> RandomLayer:
    """Compute sums, means and the layer's output in two ways each."""
    run = attend(x, replace(layer, mask=Mask(causal=True)))
    A, future = run.attention, torch.ones(len(x), len(x), device=x.device).triu(1).bool()
    values, W = project(x, layer.W_V, layer.b_V), uniform.uniform_causal(len(x)).to(x.device)
    heads = A @ values
    mapped = torch.einsum("hqk,kd,hdc->hqc", A, x, layer.W_V) + layer.b_V[:, None]
    summed = torch.einsum("hqc,hcd->qd", heads, layer.W_O) + layer.b_O
    stacked = torch.cat(list(heads), -1) @ layer.W_O.reshape(-1, layer.model) + layer.b_O
    pairs = {
        "row sums": (A.sum(-1), torch.ones_like(A[..., 0])),
        "mean": (x.mean(0), sum(x) / len(x)),
        "running means": (W @ x, uniform.cumulative_means(x)),
        "loop over prefixes": (W @ x, torch.stack([x[: i + 1].mean(0) for i in range(len(x))])),
        "sum over heads": (summed, run.output),
        "concatenation": (stacked, run.output),
        "weighted inputs": (mapped, heads),
    }
    errors = {name: (one - other).abs().max().item() for name, (one, other) in pairs.items()}
    first_row_off = (run.output[0] - x[0]).abs().max().item()
    return RandomLayer(layer, x, A[:, ~future].cpu().numpy(), A[:, future].cpu().numpy(), errors, first_row_off)


@dataclass(frozen=True)
class Folding:
    """The forms of ``equality.gaps`` against the modules: random layers, one wide random head, GPT-2's layers."""

    random: Mapping[str, Mapping[str, float]]
    one_head: Mapping[str, Mapping[str, float]]
    gpt2: Mapping[str, np.ndarray]

    def rewriting_error(self) -> float:
        """Return the largest error of the two folded forms, in the random layers of both families and in GPT-2."""
        return max(
            [gap[form] for gap in self.random.values() for form in REWRITINGS]
            + [self.gpt2[form].max() for form in REWRITINGS]
        )


@dataclass(frozen=True)
class Dropout:
    """The random layer with a tenth of its weights dropped and the rest scaled up, so that rows do not sum to 1.

    ``error`` is how far the folded form is from the layer's output, ``repaired`` what remains of it after the missing
    bias is added.
    """

    attention: Attention
    output: Residual
    error: float
    repaired: float

    @property
    def row_sums(self) -> tuple[float, float]:
        """The smallest and the largest sum of a row."""
        return self.attention.sum(-1).min().item(), self.attention.sum(-1).max().item()


@dataclass(frozen=True)
class Merging:
    """Multiplications with W_V W_O merged over those with two factors, counted as torch runs them, at width 768."""

    one_head: float
    twelve_heads: float


def measure_folding(layer: AttentionLayer, inputs: Inputs) -> tuple[Folding, str]:
    """Hold the folded forms to the modules of transformers; return them with where GPT-2's numbers come from."""
    record, source = publish.live_or_record("patterns-and-messages-equality-gpt2", inputs)
    x, narrow = draw(2, 9, 12, device=inputs.device), draw(2, 9, 8, device=inputs.device)
    wide_head = random_layer(1, 8, 8).to(inputs.device)
    names = gaps("gpt2", layer, x)
    return Folding(
        random={family: gaps(family, layer, x) for family in ("gpt2", "bert")},
        one_head={family: gaps(family, wide_head, narrow) for family in ("gpt2", "bert")},
        gpt2={name: record.array(name) for name in names},
    ), source


def measure_dropout(layer: AttentionLayer, x: Residual) -> Dropout:
    """Drop a tenth of the weights, and compare the layer's output with the folded form."""
    kept = torch.rand(3, len(x), len(x), generator=torch.Generator().manual_seed(0)) > 0.1
    attention = attend(x, layer).attention * kept.to(x.device) / 0.9
    heads = attention @ project(x, layer.W_V, layer.b_V)
    output = torch.einsum("hqc,hcd->qd", heads, layer.W_O) + layer.b_O
    folded = folding.fold_values(layer)
    difference = output - torch.einsum("hqk,kd,hde->qe", attention, x, folded.W_VO) - folded.b_VO
    remainder = difference - folding.missing_bias(attention, layer)
    return Dropout(attention, output, difference.abs().max().item(), remainder.abs().max().item())


def merging_ratio(model: int, heads: int) -> float:
    """Count the multiplications per position of W_V W_O merged over those of two factors; ``model`` is the width."""
    channel = model // heads
    x = torch.empty(heads, 1, model, device="meta")
    W_V, W_O = torch.empty(heads, model, channel, device="meta"), torch.empty(heads, channel, model, device="meta")
    merged = W_V @ W_O
    with FlopCounterMode(display=False) as two_factors:
        x @ W_V @ W_O
    with FlopCounterMode(display=False) as one_matrix:
        x @ merged
    return one_matrix.get_total_flops() / two_factors.get_total_flops()


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
