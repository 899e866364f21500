"""The paper's figures by the two models that stand in for its classifier, and where columns point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from analysis.models.controls import LARGE, PERMUTED, RANDOM
from analysis.plotting.ladder import spread
from analysis.statistics import normality
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value
from book.studies.shared.averages import over_heads
from book.studies.shared.nearest_classifier import START, Nearest
from book.studies.shared.variant_columns import MARKS, by_sequence
from book.studies.variant_classifier.controls import READ, SEEDS, Pair, Recorded
from book.studies.variant_classifier.depth import PAPER_TABLE
from book.studies.variant_classifier.maps import PAPER_WIDTH, Gallery
from book.studies.variant_classifier.sequence import (
    KINDS,
    NETWORKS,
    SEVERAL,
    SPECTRA_OF,
    SUMS_OF,
    Example,
    FineTunedSequence,
)
from book.studies.variant_classifier.sequence import TUNED_SPECTRA_OF as TUNED_SPECTRA

# ---- To which words directional columns point: to [CLS], or to words that cover a site, tell a class or are rare

MASSES = {"columns": "columns", "received": "all attention", "class_row": "attention of [CLS]"}
"""What is compared between words, as the records and as the page call it."""
SITE = MARKS.index("site")


class Marked(NamedTuple):
    """By how much words with a mark get more than the mean word: by seed, by chance, and around real lineages.

    ``tokens`` is the share of the words that have the mark, ``chance`` holds 95 % of what turned marks get.
    """

    seeds: tuple[Value, ...]
    tokens: float
    chance: tuple[float, float]
    real: float


class ClassSites(NamedTuple):
    """What columns give to the sites of a class, over what they give to the mean word, with the bounds of chance.

    ``others`` are two other seeds; ``control`` is ``None`` for a class whose sequence was not read in the control.
    """

    times: float
    low: float
    high: float
    others: Float[np.ndarray, " seed"]
    control: float | None


@dataclass(frozen=True)
class Columns(Numbers):
    """What columns give to which words.

    ``class_token`` is the share on [CLS] by classifier.
    """

    on_class: str
    on_class_times: str
    on_class_range: str
    site: str
    site_range: str
    site_other: str
    site_rest: str
    site_beyond: str
    gh: str
    mu: str
    gh_mass: str
    mu_mass: str
    class_token: Mapping[str, Value]
    by_mark: Mapping[str, Marked]
    by_class: Mapping[str, ClassSites]


def measure_columns(
    recorded: Recorded, classes: Sequence[str], unchanged: Bool[np.ndarray, " class"], tokens: int
) -> Columns:
    """Say what columns point to; ``unchanged`` marks the two classes that no shift of the words gives away."""
    measures = recorded.measures
    class_token, by_mark = share_on_class_token(recorded), {mark: compare_mark(recorded, mark) for mark in MARKS}
    by_class, own = compare_classes(recorded, classes), class_token["bundled"]
    marked = measures.array("profile_marks")[:, SITE]
    profile = measures.array("profile")[:, list(MASSES).index("columns")]
    gh, mu = np.array([sites.times for sites in by_class.values()])[unchanged]
    gh_mass, mu_mass = ((profile * marked).sum(1) / profile.sum(1))[unchanged]
    site = by_mark["site"].seeds
    return Columns(
        on_class=percent(own.value, 1),
        on_class_times=f"{own.value * tokens:.0f}",
        on_class_range=f"{100 * own.low:.1f} to {100 * own.high:.1f} %",
        site=f"{site[0].value:.1f}",
        site_range=f"{site[0].low:.1f} to {site[0].high:.1f}",
        site_other=" and ".join(f"{value.value:.1f}" for value in site[1:]),
        site_rest=f"{np.mean([sites.times for sites in by_class.values()], where=~unchanged):.1f}",
        site_beyond=" and ".join(label for label, sites in by_class.items() if sites.times > sites.high),
        gh=f"{gh:.1f}",
        mu=f"{mu:.1f}",
        gh_mass=percent(gh_mass),
        mu_mass=percent(mu_mass),
        class_token=class_token,
        by_mark=by_mark,
        by_class=by_class,
    )


def share_on_class_token(recorded: Recorded) -> dict[str, Value]:
    """Return the share of what columns carry that is on [CLS], by classifier."""
    return {
        "bundled": recorded.measures.values["columns_on_class"],
        **{f"seed {seed}": recorded.seeds.values[f"columns_on_class_{seed}"] for seed in SEEDS[1:]},
        "real lineages": recorded.real.values["columns_on_class"],
        "control": recorded.measures.values["control_columns_on_class"],
    }


def chance(record: Record, name: str) -> tuple[float, float]:
    """Return the bounds between which 95 % of turned marks lie."""
    return record[f"{name}_chance_low"], record[f"{name}_chance_high"]


def compare_mark(recorded: Recorded, mark: str) -> Marked:
    """Compare what columns give to words of one mark in all classifiers."""
    mark = mark.replace(" ", "_")
    name, measures = f"columns_{mark}", recorded.measures
    others = (recorded.seeds.values[f"{name}_{seed}"] for seed in SEEDS[1:])
    return Marked(
        (measures.values[name], *others), measures[f"tokens_{mark}"], chance(measures, name), recorded.real[name]
    )


def compare_classes(recorded: Recorded, classes: Sequence[str]) -> dict[str, ClassSites]:
    """Compare what columns give to the sites of each class with what they give to the mean word."""
    ratios = by_sequence(recorded.measures.array("profile"), recorded.measures.array("profile_marks"))[:, SITE]
    others = recorded.seeds.array("enriched")[1:, :, SITE, 0].T
    control = dict(zip(READ, recorded.controls.array("enriched")[SEEDS[0], :, SITE, 0]))
    return {
        label: ClassSites(*ratio, of_others, control.get(label))
        for label, ratio, of_others in zip(classes, ratios, others)
    }


# ---- The paper's figures by the two models that stand in for its classifier, each beside its controls, ready to draw

TUNED, SCRATCH = "fine-tuned from text", "trained from random weights"
"""The two models, the nearer one first."""
SINGULAR = ("first layer", "fifth layer", "last layer")
"""The layers of figure 11's three heads."""
QUIZ = {"one head": "contextual", "another head": "cluster"}
"""The heads of the story's first picture: the ones with most of these gates."""
NAMES = {START: "before the genes", RANDOM: "random", LARGE: "random, as large", PERMUTED: "shuffled"}

Bands = Mapping[str, Float[np.ndarray, "layer 3"]]
Panels = Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Compared:
    """What the figures of the page draw.

    Of one sequence, by model, panel and concept: ``growth`` (figure 2), ``rows`` (8), ``sums`` (9), ``singular`` (11),
    ``total`` (13); Lilliefors statistics are over their critical values, sums are standardised. By model, curve and
    layer: ``failing`` in per cent (8), ``table`` over the critical value (table 1, with the paper's), ``cosine`` (10),
    ``largest`` (11), ``entropy`` (12). ``maps`` has, by kind of gate, maps by title (3 to 7), ``quiz`` two heads.
    """

    growth: Mapping[str, Panels]
    rows: Mapping[str, Panels]
    sums: Mapping[str, Panels]
    singular: Mapping[str, Panels]
    total: Mapping[str, Panels]
    failing: Mapping[str, Bands]
    table: Mapping[str, Bands]
    cosine: Mapping[str, Bands]
    largest: Mapping[str, Bands]
    entropy: Mapping[str, Bands]
    maps: Mapping[str, Mapping[str, Float[np.ndarray, "query key"]]]
    quiz: Mapping[str, Mapping[str, Float[np.ndarray, "query key"]]]


def compare(
    nearest: Nearest,
    sequence: FineTunedSequence,
    recorded: Recorded,
    example: Example,
    gallery: Gallery,
    *,
    large: Float[np.ndarray, "seed layer"],
) -> Compared:
    """Put both models side by side, in one unit each; ``large`` has cosines of the second one's large control."""
    critical = normality.critical_value(example.width)
    layers = [f"layer {layer}" for layer in SUMS_OF]
    heads = [f"{layer}.{head}" for layer, head in TUNED_SPECTRA]
    own = {f"{layer}.{head}": values for (layer, head), values in zip(SPECTRA_OF, example.singular_values.values())}
    largest = dict.fromkeys((TUNED, SCRATCH), 1 / example.n**0.5)
    paper = np.repeat(np.array(PAPER_TABLE)[:, None], 3, 1) / normality.critical_value(PAPER_WIDTH)
    pairs = {
        name: Pair(*(over_heads(values, 2) for values in recorded.pair(name)))
        for name in ("first_failing", "D_sum", "cosine", "largest", "entropy")
    }

    def by_layer(name: str, factors: Mapping[str, float] | None = None) -> dict[str, Bands]:
        return bands(nearest, name, pairs[name], factors or {TUNED: 1.0, SCRATCH: 1.0})

    cosine = by_layer("cosine")
    cosine[SCRATCH]["random, as large"] = spread(large)
    return Compared(
        growth={
            TUNED: panels(of_one(sequence, "growth"), list("QKV")),
            SCRATCH: panels({name: rows[1:] / rows[0] for name, rows in _ordered(example.norms).items()}, list("QKV")),
        },
        rows={
            TUNED: panels({k: v / nearest.critical for k, v in of_one(sequence, "row_D").items()}, layers),
            SCRATCH: {
                title: {k: v / critical for k, v in _ordered(example.row_statistics[layer]).items()}
                for title, layer in zip(layers, SUMS_OF, strict=True)
            },
        },
        sums={
            TUNED: panels({k: standardised(v) for k, v in of_one(sequence, "sums").items()}, layers),
            SCRATCH: {
                title: {k: standardised(example.sums[f"{k}, {title}"][1]) for k in ("control", "trained")}
                for title in layers
            },
        },
        singular={
            TUNED: dict(zip(SINGULAR, panels(of_one(sequence, "singular"), heads).values(), strict=True)),
            SCRATCH: dict(zip(SINGULAR, map(_ordered, own.values()), strict=True)),
        },
        total={
            "sum of all layers": {
                name: {k: standardised(v) for k, v in values.items()}
                for name, values in ((TUNED, of_one(sequence, "total")), (SCRATCH, _ordered(example.totals)))
            }
        },
        failing=by_layer("first_failing", {TUNED: 100.0, SCRATCH: 100.0}),
        table=by_layer("D_sum", {TUNED: 1 / nearest.critical, SCRATCH: 1 / critical})
        | {"table 1": {"the paper": paper}},
        cosine=cosine,
        largest=by_layer("largest", largest),
        entropy=by_layer("entropy"),
        maps={kind: pictures(sequence, gallery, kind) for kind in (*KINDS, SEVERAL)},
        quiz=quiz(sequence),
    )


def _ordered(by_concept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the control first, so that it is drawn behind."""
    return {name: by_concept[name] for name in ("control", "trained")}


def bands(nearest: Nearest, measure: str, pair: Pair, factors: Mapping[str, float]) -> dict[str, dict]:
    """Return a measure by layer for both models and their controls: middle, low and high.

    Parameters
    ----------
    nearest, measure
        The record of the fine-tuned model, and the measure's name there; intervals over sequences, ranges of controls.
    pair
        ``(seed, sequence, layer)`` of the model from random weights and of its control: the range of the seeds.
    factors
        By what the values of each model are multiplied.
    """
    controls = nearest.controls[measure]
    tuned = {"fine-tuned": nearest.layers[measure]} | {
        name: spread(controls[rung]) for rung, name in NAMES.items() if rung in controls
    }
    scratch = {"trained": spread(pair.trained.mean(1)), "random": spread(pair.control.mean(1))}
    return {
        TUNED: {name: values * factors[TUNED] for name, values in tuned.items()},
        SCRATCH: {name: values * factors[SCRATCH] for name, values in scratch.items()},
    }


def of_one(sequence: FineTunedSequence, field: str) -> dict[str, np.ndarray]:
    """Return a field of the fine-tuned model and of the control with small random weights, by concept."""
    values = getattr(sequence, field)
    return {"control": values[NETWORKS.index(RANDOM)], "trained": values[NETWORKS.index("fine-tuned")]}


def panels(by_concept: Mapping[str, np.ndarray], titles: list[str]) -> dict[str, dict[str, np.ndarray]]:
    """Return by title what stands at its place in the arrays of each concept."""
    return {title: {concept: values[k] for concept, values in by_concept.items()} for k, title in enumerate(titles)}


def standardised(values: Float[np.ndarray, "*batch model"]) -> Float[np.ndarray, "*batch model"]:
    """Return coordinates less their mean, over their deviation; what lies beyond 4.5 is put there.

    >>> standardised(np.array([1.0, 2.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    middle, deviation = values.mean(-1, keepdims=True), values.std(-1, ddof=1, keepdims=True)
    return np.clip((values - middle) / deviation, -4.5, 4.5)


def pictures(sequence: FineTunedSequence, gallery: Gallery, kind: str) -> dict[str, Float[np.ndarray, "query key"]]:
    """Return the maps of a kind of gate: of both models the head with most of it, and the same head untrained.

    A title says how much of the map the gate carries.
    """
    k, start = [*KINDS, SEVERAL].index(kind), NETWORKS.index(START)
    drawn = {
        "fine-tuned": (sequence.maps[0, k], sequence.carried[0, k]),
        "before the genes": (sequence.maps[start, k], sequence.carried[start, k]),
        "from random weights": (gallery.maps[0, k], gallery.carried[0, k]),
        "untrained": (gallery.maps[1, k], gallery.carried[1, k]),
    }
    return {f"{name}\n{100 * carried:.0f} %": picture for name, (picture, carried) in drawn.items()}


def quiz(sequence: FineTunedSequence) -> dict[str, dict[str, Float[np.ndarray, "query key"]]]:
    """Return two heads in three networks, without a word on which is which: before the genes, large random, after."""
    kinds, places = [*KINDS, SEVERAL], [NETWORKS.index(name) for name in (START, LARGE, "fine-tuned")]
    return {
        name: {letter: sequence.maps[place, kinds.index(kind)] for letter, place in zip("ABC", places, strict=True)}
        for name, kind in QUIZ.items()
    }
