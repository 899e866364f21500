"""What deletions give away, and how accurate classifiers are where training and test are kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value

CLASSIFIERS = {
    "majority": "majority",
    "length": "length",
    "phase": "phase",
    "nearest": "nearest lineage",
    "kmers": "words",
    "kmers-gapped": "words, gaps kept",
    "bert": "BERT",
}
"""The classifiers by their names in the records, as the page calls them."""
Shares = Mapping[str, float]
Named = Mapping[str, Value]
"""How often the class of the bases and that of the deletions is named, with intervals."""


@dataclass(frozen=True)
class Leak:
    """What deletions give away: the phase of each class's words along the gene, and the lengths of its sequences."""

    classes: list[str]
    phases: Int[np.ndarray, "class word"]
    lengths: list[int]
    length_counts: Int[np.ndarray, "class length"]


class Parting(NamedTuple):
    """Test accuracies with one thing kept apart: BERT's, with its lower bound, and those of simple classifiers."""

    kept_apart: str
    training: int
    test: int
    units: int
    bert: float
    least: float
    words: float
    nearest: float
    length: float
    phase: float


@dataclass(frozen=True)
class Partings(Numbers):
    """All ways to keep training and test apart: accuracies with intervals, and what is named after an exchange.

    ``exchanged`` has, by what is kept apart, how often the class of the bases and that of the deletions is named.
    """

    length: str
    phase: str
    table: tuple[Parting, ...]
    accuracies: Mapping[str, Sequence[tuple[float, float, float]]]
    exchanged: Mapping[str, Named]
    one_per_class: str  # accuracy of words from one training sequence per class

    @property
    def kept_apart(self) -> list[str]:
        """Name what is kept apart, one parting after the other."""
        return [row.kept_apart for row in self.table]


def measure_leak(baselines: Record) -> Leak:
    """Return the phases and the lengths of each class."""
    return Leak(
        baselines.array("classes").tolist(),
        baselines.array("phases"),
        baselines.array("lengths").tolist(),
        baselines.array("length_counts"),
    )


def measure_partings(splits: Record, baselines: Record) -> Partings:
    """Compare BERT with simple classifiers on the same parts, kept apart in three ways."""
    table = tabulate(splits)
    accuracies = {
        shown: [interval(splits.values[f"{name}/{row.kept_apart}"]) for row in table]
        for name, shown in CLASSIFIERS.items()
    }
    return Partings(
        length=percent(table[0].length),
        phase=percent(table[0].phase),
        table=table,
        accuracies=accuracies,
        exchanged=exchanged_by_parting(splits),
        one_per_class=f"{baselines['kmers/one-a-class']:.3f}",
    )


def tabulate(splits: Record) -> tuple[Parting, ...]:
    """Return a row of accuracies for each way to keep training and test apart."""
    names = ("train", "units", "bert", "kmers", "nearest", "length", "phase")
    rows = []
    for kept_apart in splits.array("parts").tolist():
        training, units, bert, *simple = (splits.values[f"{name}/{kept_apart}"] for name in names)
        rows.append(
            Parting(
                kept_apart, training.value, bert.n, units.value, bert.value, bert.low, *(each.value for each in simple)
            )
        )
    return tuple(rows)


def interval(value: Value) -> tuple[float, float, float]:
    """Return a recorded value with the bounds of its interval."""
    return value.value, value.low, value.high


def exchanged_by_parting(splits: Record) -> dict[str, Named]:
    """Say how often the class of the bases and that of the deletions is named, by what is kept apart."""
    return {
        kept_apart: {part: splits.values[f"exchanged_{part}/{kept_apart}"] for part in ("bases", "deletions")}
        for kept_apart in splits.array("parts").tolist()
    }
