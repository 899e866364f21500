"""Silencing a head against the entropy of its maps: levelling measures how far a map is from uniform, silencing not."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.statistics.intervals import Interval
from book.publish import Inputs, Numbers, live_or_record
from book.publish.experiments import load

DRAWS = 2000  # samples of heads, with replacement, for an interval


@dataclass(frozen=True)
class Silenced(Numbers):
    """Rank correlations, over heads, of what a head matters with the entropy of its maps; with intervals over heads."""

    prefix = "normality-silenced"

    zero: Interval
    uniform: Interval
    zero_phrase: str
    uniform_phrase: str
    within: Float[np.ndarray, " layer"]
    """The correlation of silencing within each layer."""
    within_low: str
    within_high: str


def measure_silenced(inputs: Inputs) -> Silenced:
    """Join the record of silenced heads with the entropies of the census: both of MiniLM, whatever is shown."""
    record, _ = live_or_record("bert-gates-ablation", inputs, recompute=False)
    entropy = load("bert-gates-minilm").array("entropy").astype(float)
    effects = {way: record.array(way).mean(0) for way in ("zero", "uniform")}
    spans = {way: correlate_heads(effect.ravel(), entropy.ravel()) for way, effect in effects.items()}
    within = np.array([spearmanr(effect, level).statistic for effect, level in zip(effects["zero"], entropy)])
    phrases = {
        f"{way}_phrase": f"{span.value:+.2f} [{span.low:+.2f}, {span.high:+.2f}]".replace("-", "−")
        for way, span in spans.items()
    }
    return Silenced(
        **spans,
        **phrases,
        within=within,
        within_low=f"{within.min():+.2f}".replace("-", "−"),
        within_high=f"{within.max():+.2f}".replace("-", "−"),
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
