"""What the classifiers read: bases, deletions, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record
from book.studies.shared import variant_runs

UNSHIFTED = ("GH/490R", "Mu")
"""The classes of which no deletion changes the phase: the one of Mu has nine bases."""
Tables = Mapping[str, Float[np.ndarray, "row column"]]


@dataclass(frozen=True)
class Exchange:
    """How often a class is named when bases and deletions are of two: by BERT in three seeds, and by the words."""

    bert: Float[np.ndarray, " seed"]
    words: float
    words_gapped: float


@dataclass(frozen=True)
class Evidence(Numbers):
    """What the classifiers read: accuracies with half of the evidence, exchanged deletions, and confusions.

    ``accuracies`` is by set and class, ``confusions`` by class and class named; ``exchanged`` is by the part of the
    sequence whose class is named.
    """

    deletions_alone: str
    deletions_still: str
    follow: str
    sets: tuple[str, ...]
    accuracies: Tables
    exchanged: Mapping[str, Exchange]
    confusions: Tables


def measure_evidence(records: Mapping[str, Record], classes: Sequence[str]) -> Evidence:
    """Tell apart what is read of bases and of deletions."""
    seeds, splits = records["seeds"], records["splits"]
    confusion = seeds.array("confusion").sum(0)
    accuracies = accuracy_by_class(confusion)
    alone, still = accuracies[variant_runs.SETS.index("only deletions")], np.isin(classes, UNSHIFTED)
    exchanged = {part: exchange(seeds, records["baselines"], part) for part in ("bases", "deletions")}
    by_lineage = splits.array("confusion")[splits.array("parts").tolist().index("lineage")]
    follow = exchanged["deletions"].bert
    return Evidence(
        deletions_alone=percent(alone[~still].mean()),
        deletions_still=percent(alone[still].mean()),
        follow=f"{percent(follow.min())} to {percent(follow.max())}",
        sets=variant_runs.SETS,
        accuracies={
            "invented gene": accuracies,
            "real lineages": accuracy_by_class(records["real"].array("confusion")),
        },
        exchanged=exchanged,
        confusions={
            "by lineage": row_shares(by_lineage),
            "only substitutions": row_shares(confusion[variant_runs.SETS.index("only substitutions")]),
        },
    )


def exchange(seeds: Record, baselines: Record, part: str) -> Exchange:
    """Say how often the class of that part of a sequence is named, where its bases and deletions are of two classes."""
    words, gapped = (baselines.values[f"{name}/exchanged-{part}"].value for name in ("kmers", "kmers-gapped"))
    return Exchange(np.array([seeds.values[f"exchanged_{part}_{seed}"].value for seed in range(3)]), words, gapped)


def accuracy_by_class(confusion: Int[np.ndarray, "set class named"]) -> Float[np.ndarray, "set class"]:
    """Return the share of each class's sequences that are named rightly."""
    return np.diagonal(confusion, axis1=1, axis2=2) / confusion.sum(-1).clip(1)


def row_shares(counts: Int[np.ndarray, "class named"]) -> Float[np.ndarray, "class named"]:
    """Return counts as shares of their rows."""
    return counts / counts.sum(-1, keepdims=True).clip(1)
