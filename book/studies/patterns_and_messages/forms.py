"""What the factored, merged and input-cached forms of a layer cost, counted and timed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.axes import Residual
from analysis.transformer.attention import attend
from book import publish
from book.lab.mathematics import operation_counts
from book.publish import Inputs, Numbers
from book.publish.phrases import enumerated
from book.studies.shared.equality import relative_gap

GPT2_SIZE = {"model": 768, "head": 12, "channel": 64}


@dataclass(frozen=True)
class Count:
    """Multiply-adds of one form as torch ran them and as the formula has them, and the error of its output."""

    counted: int
    formula: int
    error: float


@dataclass(frozen=True)
class Costs(Numbers):
    """What the three forms of a layer cost: counted, over the length, and in seconds as they were recorded.

    ``ratios`` are those of the merged form to the factored one.
    """

    merged_short: str
    merged_long: str
    merged_lengths: str  # those that were timed; the ratios at each
    merged_counted: str
    merged_measured: str
    counts: Mapping[str, Count]
    ratios: Mapping[str, float]
    lengths: np.ndarray
    curves: Mapping[str, Mapping[str, np.ndarray]]
    timed_lengths: np.ndarray
    seconds: Mapping[str, np.ndarray]


def measure_costs(layer: AttentionLayer, x: Residual, inputs: Inputs) -> Costs:
    """Count multiply-adds of the three forms, and read the recorded seconds."""
    record, _ = publish.live_or_record("patterns-and-messages-costs", inputs, recompute=False)
    seconds = dict(zip(operation_counts.FORMS, record.array("seconds"), strict=True))
    lengths = np.unique(np.logspace(0, 5, 40).astype(int))
    curves = {
        title: {
            form: np.array([getattr(operation_counts.cost(form, int(n), **GPT2_SIZE), quantity) for n in lengths])
            for form in operation_counts.FORMS
        }
        for title, quantity in (("multiply-adds", "sequence"), ("cache (numbers)", "cache"))
    }
    merged, factored = (operation_counts.cost(form, 1, **GPT2_SIZE) for form in ("merged", "factored"))
    ratios = {
        "short": merged_ratio(1),
        "long": merged_ratio(10**6),
        "wide head": merged_ratio(64, head=1, channel=768),
        "parameters": merged.parameters / factored.parameters,
    }
    return Costs(
        merged_short=f"{ratios['short']:.1f}",
        merged_long=f"{ratios['long']:.1f}",
        merged_lengths=enumerated(record.array("lengths").tolist()),
        merged_counted=enumerated([merged_ratio(length) for length in record.array("lengths").tolist()], ".1f"),
        merged_measured=enumerated(seconds["merged"] / seconds["factored"], ".1f"),
        counts={form: count(form, layer, x[:1]) for form in operation_counts.FORMS},
        ratios=ratios,
        lengths=lengths,
        curves=curves,
        timed_lengths=record.array("lengths"),
        seconds=seconds,
    )


def merged_ratio(n: int, model: int = 768, head: int = 12, channel: int = 64) -> float:
    """Return the multiply-adds of the merged form over those of the factored one, for a sequence of ``n`` positions."""
    merged, factored = (
        operation_counts.cost(form, n, model, head, channel).sequence for form in ("merged", "factored")
    )
    return merged / factored


def count(form: str, layer: AttentionLayer, x: Residual) -> Count:
    """Count the multiply-adds of one form as torch runs it, and hold its output to the layer's."""
    layer = replace(layer, mask=Mask(causal=True))
    run = operation_counts.prepare(form, layer)
    with FlopCounterMode(display=False) as counter:
        output = run(x)
    formula = operation_counts.cost(form, x.shape[-2], layer.model, layer.heads, layer.channel).sequence
    return Count(counter.get_total_flops() // 2, formula, relative_gap(output, attend(x, layer).output))
