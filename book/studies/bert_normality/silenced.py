"""Silencing a head against the entropy of its maps: over all heads, within layers, and with the layers alone."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.statistics.intervals import Interval
from book.publish import Inputs, Numbers, live_or_record
from book.publish.experiments import load
from book.studies.shared.within_layers import WithinLayers, correlate_within_layers

DRAWS = 2000  # samples of heads, with replacement, for an interval


@dataclass(frozen=True)
class Silenced(Numbers):
    """Rank correlations, over heads, of what a head matters with the entropy of its maps; with intervals over heads."""

    prefix = "normality-silenced"

    zero: Interval
    within: WithinLayers
    """Of silencing with entropy."""
    depth: float
    """Of silencing with the number of the layer."""
    zero_phrase: str
    uniform_phrase: str
    shuffled_phrase: str
    within_phrase: str
    within_low: str
    within_high: str
    within_chance: float
    depth_phrase: str
    largest: float
    """The largest effect of one head, ``1 - cos`` of the sentence, mean over texts."""


def measure_silenced(inputs: Inputs) -> Silenced:
    """Join the record of silenced heads with the entropies of the census: both of MiniLM, whatever is shown."""
    record, _ = live_or_record("bert-gates-ablation", inputs, recompute=False)
    entropy = load("bert-gates-minilm").array("entropy").astype(float)
    zero, uniform = (record.array(way).mean(0) for way in ("zero", "uniform"))
    linked, within = correlate_heads(zero.ravel(), entropy.ravel()), correlate_within_layers(zero, entropy)
    depth = spearmanr(zero.ravel(), np.repeat(np.arange(len(zero)), zero.shape[1])).statistic
    return Silenced(
        zero=linked,
        within=within,
        depth=float(depth),
        zero_phrase=_phrase(linked),
        uniform_phrase=_phrase(correlate_heads(uniform.ravel(), entropy.ravel())),
        shuffled_phrase=_phrase(within.shuffled),
        within_phrase=_signed(within.value),
        within_low=_signed(within.by_layer.min()),
        within_high=_signed(within.by_layer.max()),
        within_chance=within.chance,
        depth_phrase=_signed(depth),
        largest=float(zero.max()),
    )


def correlate_heads(effect: Float[np.ndarray, " head"], entropy: Float[np.ndarray, " head"]) -> Interval:
    """Return Spearman's correlation with its interval from heads drawn with replacement.

    >>> round(correlate_heads(np.arange(9.0), np.arange(9.0)).value, 6)
    1.0
    """
    generator = np.random.default_rng(0)
    draws = [generator.integers(len(effect), size=len(effect)) for _ in range(DRAWS)]
    low, high = np.nanquantile([spearmanr(effect[draw], entropy[draw]).statistic for draw in draws], [0.025, 0.975])
    return Interval(float(spearmanr(effect, entropy).statistic), float(low), float(high))


def _phrase(span: Interval) -> str:
    return f"{_signed(span.value)} [{_signed(span.low)}, {_signed(span.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
