"""What changes with depth and during training: rows, their sums, the cone, singular values, entropy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.maps.gates import GATES, PATTERNS
from analysis.statistics import normality
from analysis.statistics.intervals import Interval, mean_interval
from book.lab.mathematics import normality_power
from book.publish import Numbers
from book.publish.phrases import enumerated, percent
from book.publish.records import Value
from book.studies.variant_classifier.controls import SEEDS, Pair, Recorded
from book.studies.variant_classifier.maps import PAPER_WIDTH
from book.studies.variant_classifier.sequence import SPECTRA_OF

PAPER_TABLE = (0.060, 0.052, 0.033, 0.040, 0.017, 0.015, 0.026, 0.017, 0.019, 0.014, 0.019, 0.015)
"""Table 1: the Lilliefors statistic of the sum of the rows, by layer."""
FIRST, LAST = 4, 4
"""The layers that fail the test in table 1, and the layers at the end that the first one is compared with."""


@dataclass(frozen=True)
class Rows(Numbers):
    """Figure 8 over sequences: the share of rows that fail the test of normality."""

    control_failing: str
    top_failing: str
    real_failing: str


@dataclass(frozen=True)
class FirstLayers:
    """Table 1 in numbers: the first four layers, which fail in the paper, beside the others.

    ``difference`` is the mean statistic of the first layers less that of the others, by seed; ``expected`` is what the
    paper's shapes would give at this width and ``error`` the standard error of the mean of three untrained models.
    ``failing`` is the share of the sums of the first layers that fail, by seed, ``expected_failing`` that of the
    paper's shapes, ``chance`` that of untrained models.
    """

    difference: Float[np.ndarray, " seed"]
    expected: float
    error: float
    failing: Float[np.ndarray, " seed"]
    expected_failing: float
    chance: float


@dataclass(frozen=True)
class Table(Numbers):
    """Table 1 and figure 13: statistics of the sum of the rows of a layer, and of the rows of all layers.

    ``totals`` has the statistics of the sum over all layers, by set of sequences, and ``total_means`` the mean of its
    coordinates over their deviation, by model.
    """

    due: str
    gap: str
    paper: Float[np.ndarray, " layer"]
    first_layers: FirstLayers
    totals: Mapping[str, Float[np.ndarray, "..."]]
    total_means: Mapping[str, Float[np.ndarray, "sequence one"]]


class Rise(NamedTuple):
    """How a measure rises with depth, by seed: its rank correlation with depth, and its last layers over its first."""

    correlation: tuple[Interval, ...]
    factor: tuple[Interval, ...]


@dataclass(frozen=True)
class Depth(Numbers):
    """Figures 10 to 12 by layer, and what counting the rows of padding adds to them.

    ``rises`` is by measure and model. ``largest`` has the largest singular values of three heads' outputs over the
    root of n, ``(seed, head)`` by model, and ``stable_rank`` the stable ranks by layer, means over sequences and heads.
    """

    cone_first: str
    cone_last: str
    control_first: str
    control_last: str
    cosine_last: str
    cosine_others: str
    sharpest: str
    padding: Mapping[str, Pair]
    rises: Mapping[str, Mapping[str, Rise]]
    largest: Mapping[str, Float[np.ndarray, "seed head"]]
    stable_rank: Mapping[str, Float[np.ndarray, "seed layer"]]


@dataclass(frozen=True)
class Emergence(Numbers):
    """Three seeds during training, as looked at ``steps``: resultant length, row entropy, gates and accuracy.

    ``mass`` is what all patterns carry, the mean over layers.
    """

    when_closed: str
    guess: str
    steps: Float[np.ndarray, "seed look"]
    by_layer: Mapping[str, Float[np.ndarray, "seed look layer"]]
    gates: Mapping[str, Float[np.ndarray, "seed look layer"]]
    top_resultant: Float[np.ndarray, "seed look"]
    mass: Float[np.ndarray, "seed look"]
    accuracy: Float[np.ndarray, "seed look"]


@dataclass(frozen=True)
class RealLineages(Numbers):
    """The classifier that was trained around real lineages, beside the others: means over sequences by layer."""

    real_sharpest: str
    real_lowest: str
    seeds_lowest: str
    real_any: str
    real_any_range: str
    seeds_any: str
    by_layer: Mapping[str, Mapping[str, Float[np.ndarray, " layer"]]]
    any_site: Value
    chance: tuple[float, float]


def measure_rows(recorded: Recorded) -> Rows:
    """Count the rows that are not Gaussian."""
    failing = recorded.pair("first_failing")
    control = 100 * failing.control.mean((0, 1))
    top = 100 * failing.trained[..., -3:].mean((1, 2))
    return Rows(
        control_failing=f"{control.min():.1f} to {control.max():.1f} %",
        top_failing=enumerated(top, ".1f") + " %",
        real_failing=" and ".join(map(percent, recorded.real.array("first_failing")[:, -2:].mean(0))),
    )


def measure_table(recorded: Recorded, width: int) -> Table:
    """Compare table 1 with the sums here, whose width is another."""
    statistics, totals, measures = recorded.pair("D_sum"), recorded.pair("D_total"), recorded.measures
    first = compare_first_layers(statistics.trained, recorded.controls.array("many_D_sum"), width)
    return Table(
        due=f"{first.expected / first.error:.1f}",
        gap=f"{first.difference.mean() / first.error:+.1f}",
        paper=np.array(PAPER_TABLE),
        first_layers=first,
        totals={"trained": totals.trained, "control": totals.control, "padding in": measures.array("padded_D_total")},
        total_means={
            name: measures.array(f"{prefix}mean_total") for name, prefix in (("trained", ""), ("control", "control_"))
        },
    )


def compare_first_layers(
    statistics: Float[np.ndarray, "seed sequence layer"], untrained: Float[np.ndarray, "model layer"], width: int
) -> FirstLayers:
    """Compare the first layers with the others: here, in untrained models, and as the paper's shapes would be."""
    expected = normality_power.at_other_size(PAPER_TABLE, PAPER_WIDTH, width, np.random.default_rng(0))
    critical = normality.critical_value(width)
    return FirstLayers(
        difference=first_less_others(statistics).mean(1),
        expected=float(first_less_others(expected.mean)),
        error=float(first_less_others(untrained).std(ddof=1) / np.sqrt(len(statistics))),
        failing=(statistics > critical)[..., :FIRST].mean((1, 2)),
        expected_failing=float(expected.failing[:FIRST].mean()),
        chance=float((untrained > critical)[:, :FIRST].mean()),
    )


def first_less_others(statistics: Float[np.ndarray, "*batch layer"]) -> Float[np.ndarray, "*batch"]:
    """Return the mean of the first four layers less that of the others."""
    return statistics[..., :FIRST].mean(-1) - statistics[..., FIRST:].mean(-1)


def measure_depth(recorded: Recorded, n: int) -> Depth:
    """Measure by layer how rows close into a cone, how long the heads' outputs are, and how sharp attention is."""
    cone, cosine = recorded.pair("cone"), recorded.pair("cosine")
    entropy, largest, stable = (recorded.pair(name) for name in ("entropy", "largest", "stable_rank"))
    trained, control = (values[SEEDS[0]].mean(0) for values in cone)
    top = cosine.trained[:, :, -1].mean(1)
    layers, heads = zip(*SPECTRA_OF)
    return Depth(
        cone_first=f"{trained[0]:,.0f}",
        cone_last=f"{trained[-1]:,.0f}",
        control_first=f"{control[0]:,.0f}",
        control_last=f"{control[-1]:,.0f}",
        cosine_last=f"{top[0]:.2f}",
        cosine_others=" and ".join(f"{value:.2f}" for value in top[1:]),
        sharpest=enumerated(entropy.trained.mean((1, 3)).argmin(1)),
        padding=add_padding(recorded),
        rises={
            name: {model: measure_rise(values) for model, values in recorded.pair(name)._asdict().items()}
            for name in ("cone", "cosine", "largest")
        },
        largest={
            model: values[:, :, layers, heads].mean(1) / np.sqrt(n) for model, values in largest._asdict().items()
        },
        stable_rank={model: values.mean((1, 3)) for model, values in stable._asdict().items()},
    )


def add_padding(recorded: Recorded) -> dict[str, Pair]:
    """Return what three measures gain when the rows of padding are counted: the cone index in per cent."""
    bare, padded = (
        {name: recorded.pair(prefix + name) for name in ("cone", "cosine", "D_sum")} for prefix in ("", "padded_")
    )
    return {
        "cone index": Pair(*(100 * (more / less - 1) for more, less in zip(padded["cone"], bare["cone"]))),
        "mean cosine": Pair(*map(np.subtract, padded["cosine"], bare["cosine"])),
        "D of the sum": Pair(*map(np.subtract, padded["D_sum"], bare["D_sum"])),
    }


def measure_rise(values: Float[np.ndarray, "seed sequence layer *head"]) -> Rise:
    """Return the rank correlation with depth and the last four layers over the first, means over sequences by seed."""
    by_layer = values.reshape(*values.shape[:3], -1).mean(3)
    depth = range(by_layer.shape[2])
    return Rise(
        tuple(mean_interval([spearmanr(depth, row).statistic for row in seed]) for seed in by_layer),
        tuple(mean_interval(seed[:, -LAST:].mean(1) / seed[:, 0]) for seed in by_layer),
    )


def measure_emergence(recorded: Recorded, classes: int) -> Emergence:
    """Return what was seen while the three seeds were trained."""
    seeds = recorded.seeds
    gates, resultant, accuracy = (seeds.array(f"trace_{name}") for name in ("gates", "resultant", "validation"))
    top = resultant[:, :, -1]
    closed = accuracy[range(len(top)), top.argmax(1)]
    return Emergence(
        when_closed=enumerated(100 * closed, ".0f") + " %",
        guess=percent(1 / classes, 1),
        steps=seeds.array("trace_step"),
        by_layer={"resultant length": resultant, "row entropy": seeds.array("trace_entropy")},
        gates={name: gates[..., GATES.index(name)] for name in ("directional", "cluster")},
        top_resultant=top,
        mass=gates[..., : len(PATTERNS)].sum(-1).mean(-1),
        accuracy=accuracy,
    )


def measure_real(recorded: Recorded) -> RealLineages:
    """Compare the classifier that was trained around real lineages with those of the invented gene."""
    real, cosine, entropy = recorded.real, recorded.pair("cosine"), recorded.pair("entropy")
    models = {
        "real lineages": (real.array("cosine"), real.array("entropy")),
        **{f"invented, seed {seed}": (cosine.trained[seed], entropy.trained[seed]) for seed in SEEDS},
        "seed 0, control": (cosine.control[SEEDS[0]], entropy.control[SEEDS[0]]),
    }
    by_layer = {
        name: {"cosine": of_cosine.mean(0), "entropy": of_entropy.mean((0, 2))}
        for name, (of_cosine, of_entropy) in models.items()
    }
    lowest = [by_layer[name]["entropy"].min() for name in list(by_layer)[:-1]]
    seeds_any = [
        recorded.measures["columns_any_site"],
        *(recorded.seeds[f"columns_any_site_{seed}"] for seed in SEEDS[1:]),
    ]
    any_site = real.values["columns_any_site"]
    return RealLineages(
        real_sharpest=str(by_layer["real lineages"]["entropy"].argmin()),
        real_lowest=f"{lowest[0]:.2f}",
        seeds_lowest=enumerated(lowest[1:], ".2f"),
        real_any=f"{any_site.value:.1f}",
        real_any_range=f"{any_site.low:.1f} to {any_site.high:.1f}",
        seeds_any=f"{enumerated(seeds_any[:-1], '.1f')} and {seeds_any[-1]:.1f}",
        by_layer=by_layer,
        any_site=any_site,
        chance=(real["columns_any_site_chance_low"], real["columns_any_site_chance_high"]),
    )
