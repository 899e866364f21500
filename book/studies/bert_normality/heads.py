"""The heads: singular values of what they write, entropy of their attention, and what silencing each changes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import rankdata, spearmanr

from analysis.maps import entropy, gates
from analysis.representations import anisotropy
from analysis.statistics.intervals import Interval
from book.lab.mathematics import layer_profile
from book.publish import Inputs, Numbers, live_or_record
from book.publish.experiments import load
from book.studies.bert_normality.rows import DrawnText, depth_correlation, over_texts, rank_correlation
from book.studies.shared.averages import WithinLayers, correlate_within_layers
from book.studies.shared.ladder import Arrays

BINS = (16, 256, 4096)
DRAWS = 4000  # renumberings of the heads of a layer
SINK = 0.5  # a sink head gives more than this share of its mass to the first and the last token


@dataclass(frozen=True)
class Spectra:
    """Singular values of the head outputs; by network."""

    drawn: Mapping[int, Mapping[str, np.ndarray]]
    """Those of the text that is drawn over the root of its length, by layer first."""
    largest: Mapping[str, Float[np.ndarray, "layer 3"]]
    """The largest over the root of the number of rows: mean over heads, with its interval over texts."""
    stable_rank: Mapping[str, Float[np.ndarray, "layer 3"]]
    rise: Mapping[str, Interval]
    """Rank correlation of the largest with depth."""


@dataclass(frozen=True)
class Ideal:
    """One map, and what a head with this map writes of random values."""

    row_entropy: float
    """The mean of its rows, relative to the maximum."""
    histogram_entropy: float
    rank: float
    """The stable rank of what the head writes."""


@dataclass(frozen=True)
class Entropies:
    """Two readings of the entropy of an attention map; by network."""

    ideal: Mapping[str, Ideal]
    """Of ideal gates and of a random map, by name."""
    row: Mapping[str, Float[np.ndarray, "layer 3"]]
    """Of a row, relative to its maximum: mean over heads, with its interval over texts."""
    histogram: Mapping[str, Float[np.ndarray, "layer 3"]]
    """Of the histogram of a map's values, in nats."""
    by_bins: Mapping[int, Mapping[str, list[float]]]
    """The latter by the number of bins and network, in every layer of the text that is drawn."""
    distinct: float
    """The smallest share of distinct values in a map of the layer before the middle that is drawn."""


@dataclass(frozen=True)
class Effects:
    """What making one head uniform does to the sentence, against the entropy of its attention; by network."""

    effect: Mapping[str, Float[np.ndarray, "text layer head"]]
    entropy: Mapping[str, Float[np.ndarray, "text layer head"]]
    """Relative row entropy of the maps that were made uniform."""
    sink: Float[np.ndarray, "layer head"]
    """The mass on the first and the last token, in the trained model, mean over texts."""
    with_entropy: Mapping[str, Interval]
    """Rank correlation over all heads."""
    with_depth: Mapping[str, Interval]
    within: list[Interval]
    """Rank correlation with entropy over the heads of each trained layer."""
    chance: list[float]
    """By layer: the share of renumberings of the heads whose correlation is as far from 0."""

    @property
    def is_sink(self) -> Bool[np.ndarray, "layer head"]:
        """Which trained heads are sink heads."""
        return self.sink > SINK

    @property
    def sink_places(self) -> dict[int, list[int]]:
        """The places of the sink heads in their layer by effect, the largest first; by layer."""
        effect = self.effect["trained"].mean(0)
        return {
            layer: sorted((1 + (-effect[layer]).argsort().argsort()[self.is_sink[layer]]).tolist())
            for layer in np.flatnonzero(self.is_sink.any(1)).tolist()
        }

    def means(self, name: str) -> dict[str, Float[np.ndarray, "layer head"]]:
        """Return the mean over texts of ``effect`` or ``entropy``, by network."""
        return {network: values.mean(0) for network, values in getattr(self, name).items()}


def measure_spectra(text: DrawnText, arrays: Arrays) -> Spectra:
    """Take the singular values of head outputs, and average those of the survey over heads and texts."""
    values = {
        network: layer_profile.singular_values(stations).cpu().numpy() for network, stations in text.stations.items()
    }
    root = arrays["trained"]["tokens"][:, None] ** 0.5
    largest = {network: survey["largest"].mean(2) for network, survey in arrays.items()}
    return Spectra(
        drawn={layer: {network: by_layer[layer] for network, by_layer in values.items()} for layer in text.layers},
        largest={network: over_texts(mean / root) for network, mean in largest.items()},
        stable_rank={network: over_texts(survey["stable_rank"].mean(2)) for network, survey in arrays.items()},
        rise={network: depth_correlation(mean) for network, mean in largest.items()},
    )


def measure_entropies(text: DrawnText, arrays: Arrays) -> Entropies:
    """Average both entropies over heads and texts, and vary the bins of the second."""
    maps = {network: [layer.attention for layer in stations] for network, stations in text.stations.items()}
    return Entropies(
        ideal=_measure_ideal_gates(),
        row={network: over_texts(survey["entropy"].mean(2)) for network, survey in arrays.items()},
        histogram={network: over_texts(survey["histogram"].mean(2)) for network, survey in arrays.items()},
        by_bins={
            bins: {
                network: [entropy.histogram_entropy(attention, bins).mean().item() for attention in by_layer]
                for network, by_layer in maps.items()
            }
            for bins in BINS
        },
        distinct=min(len(head.unique()) / head.numel() for by_layer in maps.values() for head in by_layer[text.middle]),
    )


def _measure_ideal_gates(size: int = 32, channels: int = 8) -> dict[str, Ideal]:
    """Take both entropies of ideal gates, and the stable rank of their product with random values."""
    noise = torch.randn(size, size, generator=torch.Generator().manual_seed(0)).double()
    values = torch.randn(1, size, channels, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    maps = {
        "closed (uniform)": gates.closed(size),
        "directional": gates.directional(size, 5),
        "open (identity)": gates.open_gate(size),
        "backward": gates.backward(size, 1),
        "random softmax": noise.softmax(-1),
    }
    return {
        name: Ideal(
            entropy.relative_entropy(attention[None]).mean().item(),
            entropy.histogram_entropy(attention[None]).item(),
            anisotropy.head_output_spectrum(attention[None], values).stable_rank.item(),
        )
        for name, attention in maps.items()
    }


def measure_effects(arrays: Arrays) -> Effects:
    """Correlate what each head matters with its entropy and with its depth."""
    effect = {network: survey["effect"] for network, survey in arrays.items()}
    sharpness = {network: survey["effect_entropy"] for network, survey in arrays.items()}
    texts, layers, heads = effect["trained"].shape
    depth = [np.repeat(range(layers), heads)] * texts
    trained, maps = effect["trained"], sharpness["trained"]
    return Effects(
        effect=effect,
        entropy=sharpness,
        sink=arrays["trained"]["effect_sink"].mean(0),
        with_entropy={network: rank_correlation(effect[network], sharpness[network]) for network in arrays},
        with_depth={network: rank_correlation(effect[network], depth) for network in arrays},
        within=[rank_correlation(trained[:, layer], maps[:, layer]) for layer in range(layers)],
        chance=[share_by_chance(trained[:, layer], maps[:, layer]) for layer in range(layers)],
    )


def share_by_chance(effect: Float[np.ndarray, "text head"], sharpness: Float[np.ndarray, "text head"]) -> float:
    """Renumber the heads at random, in the same way in all texts.

    Returns
    -------
    float
        The share of renumberings whose mean rank correlation over texts is as far from 0 as that of the heads.
    """
    first, second = (rankdata(values, axis=1) for values in (effect, sharpness))
    first, second = ((ranks - ranks.mean(1, keepdims=True)) / ranks.std(1, keepdims=True) for ranks in (first, second))
    generator = np.random.default_rng(0)
    orders = np.stack([generator.permutation(first.shape[1]) for _ in range(DRAWS)])
    correlations = (first[:, orders] * second[:, None]).mean((0, 2))
    return float((abs(correlations) >= abs((first * second).mean()) - 1e-9).mean())


RESAMPLES = 2000  # samples of heads, with replacement, for an interval


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
    draws = [generator.integers(len(effect), size=len(effect)) for _ in range(RESAMPLES)]
    low, high = np.nanquantile([spearmanr(effect[draw], entropy[draw]).statistic for draw in draws], [0.025, 0.975])
    return Interval(float(spearmanr(effect, entropy).statistic), float(low), float(high))


def _phrase(span: Interval) -> str:
    return f"{_signed(span.value)} [{_signed(span.low)}, {_signed(span.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
