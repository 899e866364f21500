"""What the classifiers read: bases, deletions, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value
from book.studies.shared import variant_seeds

UNSHIFTED = ("GH/490R", "Mu")
"""The classes of which no deletion changes the phase: the one of Mu has nine bases."""
Tables = Mapping[str, Float[np.ndarray, "row column"]]


@dataclass(frozen=True)
class Exchange:
    """How often a class is named when bases and deletions are of two: by BERT in three seeds, and by the words.

    ``balanced`` is seed 0 where the words of the bases' class are at least twice as many as the others.
    """

    bert: Float[np.ndarray, "seed 3"]
    """With the ends of its interval."""
    sequences: int
    balanced: Value
    words: Value
    words_gapped: Value


@dataclass(frozen=True)
class Evidence(Numbers):
    """What the classifiers read: accuracies with half of the evidence, exchanged deletions, and confusions.

    ``accuracies`` is by set and class, ``confusions`` by class and class named; ``exchanged`` is by the part of the
    sequence whose class is named.
    """

    deletions_alone: str
    deletions_still: str
    follow: str
    follow_sequences: int  # those that each classifier is asked about
    balanced_follow: str
    balanced_low: str
    balanced_high: str
    balanced_bases_high: str  # the upper end of the interval, none having been named
    balanced_sequences: int
    words_before: float  # telling words of its class in a sequence before the exchange, mean
    words_bases: float  # those of the class of its bases after it, and of the class of the deletions
    words_deletions: float
    words_balanced_bases: float  # the same in the balanced ones
    words_balanced_deletions: float
    sets: tuple[str, ...]
    accuracies: Tables
    exchanged: Mapping[str, Exchange]
    confusions: Tables


def measure_evidence(records: Mapping[str, Record], classes: Sequence[str]) -> Evidence:
    """Tell apart what is read of bases and of deletions."""
    seeds, splits = records["seeds"], records["splits"]
    confusion = seeds.array("confusion").sum(0)
    accuracies = accuracy_by_class(confusion)
    alone, still = accuracies[variant_seeds.SETS.index("only deletions")], np.isin(classes, UNSHIFTED)
    swap = records["balanced-swap"]
    exchanged = {part: exchange(seeds, records["baselines"], swap, part) for part in ("bases", "deletions")}
    by_lineage = splits.array("confusion")[splits.array("parts").tolist().index("lineage")]
    follow, balanced = exchanged["deletions"].bert[:, 0], exchanged["deletions"].balanced
    return Evidence(
        deletions_alone=percent(alone[~still].mean()),
        deletions_still=percent(alone[still].mean()),
        follow=f"{percent(follow.min())} to {percent(follow.max())}",
        follow_sequences=exchanged["deletions"].sequences,
        balanced_follow=percent(balanced.value),
        balanced_low=percent(balanced.low),
        balanced_high=percent(balanced.high),
        balanced_bases_high=percent(exchanged["bases"].balanced.high, 1),
        balanced_sequences=balanced.n,
        words_before=swap["words_before"],
        words_bases=swap["words_all_bases"],
        words_deletions=swap["words_all_deletions"],
        words_balanced_bases=swap["words_bases"],
        words_balanced_deletions=swap["words_deletions"],
        sets=variant_seeds.SETS,
        accuracies={
            "invented gene": accuracies,
            "real lineages": accuracy_by_class(records["real"].array("confusion")),
        },
        exchanged=exchanged,
        confusions={
            "by lineage": row_shares(by_lineage),
            "only substitutions": row_shares(confusion[variant_seeds.SETS.index("only substitutions")]),
        },
    )


def exchange(seeds: Record, baselines: Record, swap: Record, part: str) -> Exchange:
    """Say how often the class of that part of a sequence is named, where its bases and deletions are of two classes."""
    words, gapped = (baselines.values[f"{name}/exchanged-{part}"] for name in ("kmers", "kmers-gapped"))
    bert = [seeds.values[f"exchanged_{part}_{seed}"] for seed in range(3)]
    return Exchange(
        np.array([(each.value, each.low, each.high) for each in bert]),
        bert[0].n,
        swap.values[f"named_{part}"],
        words,
        gapped,
    )


def accuracy_by_class(confusion: Int[np.ndarray, "set class named"]) -> Float[np.ndarray, "set class"]:
    """Return the share of each class's sequences that are named rightly."""
    return np.diagonal(confusion, axis1=1, axis2=2) / confusion.sum(-1).clip(1)


def row_shares(counts: Int[np.ndarray, "class named"]) -> Float[np.ndarray, "class named"]:
    """Return counts as shares of their rows."""
    return counts / counts.sum(-1, keepdims=True).clip(1)
