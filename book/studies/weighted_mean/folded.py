"""The maps folded out of the mean: held to the modules, with weights dropped, and what merging costs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Residual
from analysis.decomposition import folding
from analysis.transformer.attention import attend, project
from book import publish
from book.publish import Inputs
from book.studies.shared.equality import draw, gaps, random_layer

REWRITINGS = ("weighted inputs, folded", "module with b_V moved")
ONE_MAP = "one mean attention for all heads"


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
