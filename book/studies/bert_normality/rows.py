"""The test of a row: its threshold, what LayerNorm does to it, how many rows fail, with rows of padding and without."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import spearmanr
from torch import Tensor

from analysis.core.axes import Residual
from analysis.data import texts
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.statistics import normality
from analysis.statistics.intervals import Interval
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from analysis.transformer.layernorm import normalise
from book.publish import Inputs
from book.studies.shared.averages import by_layer, interval
from book.studies.shared.ladder import SEEDS, Arrays
from book.studies.shared.layer_lines import by_depth

# ---- The text that is drawn, run through the trained model and through its control

PASSAGE = 3  # which text is drawn


@dataclass(frozen=True)
class DrawnText:
    """One text in both networks."""

    checkpoint: Checkpoint
    networks: dict[str, torch.nn.Module]
    states: dict[str, Float[Tensor, "state position model"]]
    """By network, what every layer read and what the last one wrote."""
    stations: dict[str, list[LayerActivations]]
    """By network, then by layer."""
    layers: tuple[int, ...]
    """The layers that are drawn: the first, one before the middle, the last."""
    bare: torch.nn.Module
    """The control, whose embeddings here lack the vector of the token type."""
    bare_states: Float[Tensor, "state position model"]

    @property
    def middle(self) -> int:
        """The layer before the middle that is drawn."""
        return self.layers[len(self.layers) // 2]


@dataclass(frozen=True)
class Subject:
    """What the chapter is about: the checkpoint, and one text in it."""

    checkpoint: Checkpoint
    width: int
    tokens: int
    """Of the text that is drawn."""
    before_first: Residual
    """What the first LayerNorm of the trained model reads."""
    middle: int
    """The layer before the middle that is drawn."""
    before_second: Residual
    """What the second LayerNorm of that layer reads."""


def run_networks(inputs: Inputs) -> DrawnText:
    """Run both networks on the text that is drawn."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, passages = pretrained.tokenizer(checkpoint), texts.passages(source=inputs.texts)
    passage = passages[PASSAGE % len(passages)]
    networks = {
        name: pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for name, seed in SEEDS.items()
    }
    states = {name: extraction.hidden_states(model, tokenizer, [passage])[0] for name, model in networks.items()}
    stations = {
        name: [run_layer(x, layer) for x, layer in zip(states[name], load(model).encoder_layers())]
        for name, model in networks.items()
    }
    bare = pretrained.load(checkpoint, control_seed=SEEDS["control"], device=inputs.device)
    bare.embeddings.token_type_embeddings.weight.zero_()
    return DrawnText(
        checkpoint,
        networks,
        states,
        stations,
        by_depth(len(stations["trained"])),
        bare,
        extraction.hidden_states(bare, tokenizer, [passage])[0],
    )


def describe(text: DrawnText) -> Subject:
    """Take from the run what the page shows of it."""
    tokens, width = text.states["trained"].shape[1:]
    trained = text.stations["trained"]
    return Subject(
        text.checkpoint, width, tokens, trained[0].before_first, text.middle, trained[text.middle].before_second
    )


# ---- The test of a row


def over_texts(values: Float[np.ndarray, "text layer"]) -> Float[np.ndarray, "layer 3"]:
    """Return the mean over texts and its interval, in every layer."""
    return np.array([interval(column) for column in values.T])


def rank_correlation(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> Interval:
    """Return the mean over texts of the rank correlation of two quantities.

    Examples
    --------
    >>> values = [np.array([1.0, 2.0, 3.0])] * 2
    >>> rank_correlation(values, values).value
    1.0
    """
    return interval([float(spearmanr(np.ravel(a), np.ravel(b)).statistic) for a, b in zip(first, second, strict=True)])


def depth_correlation(values: Float[np.ndarray, "text layer"]) -> Interval:
    """Return the mean over texts of the rank correlation with depth."""
    return rank_correlation(values, [np.arange(values.shape[1])] * len(values))


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


MEANS = {
    "rows that fail": "first_failing",
    "plain rows that fail": "bare_failing",
    "D of the sum": "D_sum",
    "D of the plain sum": "D_sum_bare",
    "mean cosine": "cosine",
    "stable rank": "stable_rank",
    "entropy": "entropy",
}


@dataclass(frozen=True)
class Padding:
    """The texts that were also measured with padding."""

    texts: int
    share: float
    """How many of their rows are padding."""
    rows: Mapping[str, Mapping[str, Float[np.ndarray, "layer 3"]]]
    """The share of rows that fail, by network, then ``without`` and ``with`` padding."""
    sums: Mapping[str, Mapping[str, Float[np.ndarray, "layer 3"]]]
    """The statistic of the sum, likewise."""
    last_sum_fails: Mapping[str, Mapping[str, float]]
    """The share of texts whose sum fails in the last layer, likewise."""
    means: Mapping[str, Mapping[str, Mapping[str, Float[np.ndarray, " layer"]]]]
    """Means over texts (and heads), by quantity, as ``MEANS`` names them, by network, and likewise."""
    cone_ratio: Mapping[str, float]
    """By network: how many times as large padding makes the cone index."""


def measure_padding(arrays: Arrays, critical: float) -> Padding:
    """Compare the texts that were padded with themselves."""
    trained = arrays["trained"]
    count = len(trained["pad_rows"])
    return Padding(
        texts=count,
        share=float(1 - trained["tokens"][:count].mean() / trained["pad_rows"].mean()),
        rows={network: _both(values, "first_failing", over_texts) for network, values in arrays.items()},
        sums={network: _both(values, "D_sum", over_texts) for network, values in arrays.items()},
        last_sum_fails={
            network: _both(values, "D_sum", partial(_share_above, critical)) for network, values in arrays.items()
        },
        means={
            title: {network: _both(values, name, by_layer) for network, values in arrays.items()}
            for title, name in MEANS.items()
        },
        cone_ratio={
            network: float((values["pad_cone"] / values["cone"][:count]).mean()) for network, values in arrays.items()
        },
    )


def _share_above(critical: float, statistics: Float[np.ndarray, "text layer"]) -> float:
    """Return the share of texts whose statistic in the last layer is above the critical value."""
    return float((statistics[:, -1] > critical).mean())


def _both(values: Mapping[str, np.ndarray], name: str, average: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    """Average a quantity of the padded texts without padding and with it."""
    padded = values[f"pad_{name}"]
    return {"without": average(values[name][: len(padded)]), "with": average(padded)}
