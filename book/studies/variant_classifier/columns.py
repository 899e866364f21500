"""To which words directional columns point: to [CLS], or to words that cover a site, tell a class or are rare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value
from book.studies.shared.variant_columns import MARKS, by_sequence
from book.studies.variant_classifier.controls import READ
from book.studies.variant_classifier.recorded import SEEDS, Recorded

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
