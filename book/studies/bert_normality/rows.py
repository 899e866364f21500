"""The test of a row: its threshold, what LayerNorm does to it, and how many rows fail."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.statistics import normality
from analysis.transformer.layernorm import normalise
from book.studies.bert_normality.averages import over_texts
from book.studies.bert_normality.drawn import DrawnText
from book.studies.shared.networks import Arrays

PAPER_WIDTH, PAPER_THRESHOLD, DRAWS = 768, 0.032, 40_000
PAPER = np.array([60, 52, 33, 40, 17, 15, 26, 17, 19, 14, 19, 15]) / 1000
"""Table 1 of the paper: the statistic of the sum of the rows, in each of its twelve layers."""
ROUNDING = 0.0005  # how far a value of that table may be from what it was before it was rounded
KINDS = {
    "trained": ("trained", "first_failing"),
    "plain": ("trained", "bare_failing"),
    "kept": ("trained", "first_failing_kept"),
    "plain kept": ("trained", "bare_failing_kept"),
    "control": ("control", "first_failing"),
    "control plain": ("control", "bare_failing"),
}


@dataclass(frozen=True)
class Threshold:
    """Where the test of normality draws its line."""

    simulated: Float[Tensor, " draw"]
    """The statistics of Gaussian samples as wide as the paper's rows."""
    table: float
    """The 5 % point of our table for the paper's width."""
    critical: float
    """The same for the width of the model's rows."""
    rule: float
    """What the rule of 1967 for large samples gives for the paper's width."""
    paper: Float[np.ndarray, " layer"]
    """The paper's statistics."""

    @property
    def five_percent(self) -> float:
        """The simulated 5 % point for the paper's width."""
        return self.simulated.quantile(0.95).item()

    @property
    def level(self) -> float:
        """The share of Gaussian samples that the paper's threshold rejects."""
        return (self.simulated > PAPER_THRESHOLD).double().mean().item()

    @property
    def paper_fails(self) -> Bool[np.ndarray, " layer"]:
        """Which layers of the paper fail by its own threshold."""
        return self.paper > PAPER_THRESHOLD


@dataclass(frozen=True)
class Invariance:
    """What the first LayerNorm does to the statistic of a row, in the first layer."""

    plain_error: float
    """The largest change without gain and bias."""
    change: float
    """The mean change with them."""
    failing_before: float
    failing_after: float


@dataclass(frozen=True)
class Rows:
    """How many rows after the first LayerNorm fail the test."""

    statistics: Mapping[int, Mapping[str, np.ndarray]]
    """Of every row of the text that is drawn, by layer and network."""
    failing: Mapping[str, Float[np.ndarray, "layer 3"]]
    """Shares with intervals over texts. ``trained`` and ``control`` are the rows as written, ``plain`` without gain and
    bias, ``kept`` without the coordinates that stand out."""
    longer: Bool[np.ndarray, " text"]
    """Which texts have more tokens than a row has coordinates."""
    sizes: Mapping[str, Float[np.ndarray, " coordinate"]]
    """By network: the root mean square of each coordinate in the last layer, of plain rows."""
    most_outliers: int
    """The most coordinates that stand out in a layer, of rows as written."""


def measure_threshold(width: int) -> Threshold:
    """Simulate the statistic of Gaussian samples."""
    simulated = normality.simulate_null(PAPER_WIDTH, DRAWS, np.random.default_rng(0))
    return Threshold(
        simulated,
        normality.critical_value(PAPER_WIDTH),
        normality.critical_value(width),
        0.886 / PAPER_WIDTH**0.5,
        PAPER,
    )


def measure_invariance(text: DrawnText, critical: float) -> Invariance:
    """Take the statistic of each row before and after the first LayerNorm of the trained model."""
    stations = text.stations["trained"][0]
    before = normality.lilliefors(stations.before_first.double())
    plain = normality.lilliefors(normalise(stations.before_first.double()))
    after = normality.lilliefors(stations.first)
    return Invariance(
        (plain - before).abs().max().item(),
        (after - before).abs().mean().item(),
        (before > critical).double().mean().item(),
        (after > critical).double().mean().item(),
    )


def measure_rows(text: DrawnText, arrays: Arrays, width: int) -> Rows:
    """Test the rows of the text that is drawn, and average the survey's shares over texts."""
    statistics = {
        layer: {
            network: normality.lilliefors(stations[layer].first).cpu().numpy()
            for network, stations in text.stations.items()
        }
        for layer in text.layers
    }
    return Rows(
        statistics=statistics,
        failing={kind: over_texts(arrays[network][name]) for kind, (network, name) in KINDS.items()},
        longer=arrays["trained"]["tokens"] > width,
        sizes={network: values["bare_size"][-1] for network, values in arrays.items()},
        most_outliers=int(arrays["trained"]["first_outliers"].max()),
    )
