"""Where classes differ: columns of the alignment that define a class, the k-mers that cover them, words that tell.

What belongs here: sequences, columns and words. What does not: who attends to them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from book.lab.dna.fasta import GAP, Gene
from book.lab.dna.kmers import STRIDE, K, kmers
from book.lab.dna.simulate import Backbone


def _columns(backbones: Sequence[Backbone]) -> np.ndarray:
    return np.array([np.frombuffer(b.aligned.encode(), np.uint8) for b in backbones])


def _majority(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each column's most frequent letter (the first in the alphabet, if several are) and its share."""
    letters = np.unique(rows)
    counts = np.stack([(rows == letter).sum(0) for letter in letters])
    return letters[counts.argmax(0)], counts.max(0) / len(rows)


def defining_columns(backbones: Sequence[Backbone], share: float = 0.9) -> dict[str, np.ndarray]:
    """Find for each class the columns where it has left what most classes have.

    Parameters
    ----------
    share
        How many of the class's lineages must have the letter (or the gap).

    Returns
    -------
    dict
        Class to a boolean for each column of the alignment.

    >>> found = defining_columns([Backbone("a", "A", "ACGT"),
    ...                           Backbone("b", "B", "ACGT"),
    ...                           Backbone("c", "C", "AC-T")])
    >>> found["C"].tolist(), found["A"].any()
    ([False, False, True, False], np.False_)
    """
    own = _by_class(backbones)
    usual, _ = _majority(np.stack([letter for letter, _ in own.values()]))
    return {label: (letter != usual) & (found >= share) for label, (letter, found) in own.items()}


def _by_class(backbones: Sequence[Backbone]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each class its most frequent letter in every column, and the share of lineages that have it."""
    rows, labels = _columns(backbones), np.array([b.label for b in backbones])
    return {label: _majority(rows[labels == label]) for label in sorted(set(labels.tolist()))}


def mark_tokens(gene: Gene, columns: np.ndarray, k: int = K, stride: int = STRIDE) -> np.ndarray:
    """Say of each k-mer of a sequence whether it covers one of the columns, or a gap that holds one.

    The columns of ``AC-GT`` are cut into ``AC``, ``CG`` and ``GT``; the gap lies within the second.

    >>> mark_tokens(Gene("x", "ACGT", aligned="AC-GT"), np.array([0, 0, 1, 0, 0], bool),
    ...             k=2, stride=1).tolist()
    [False, True, False]
    """
    place = np.flatnonzero(np.frombuffer(gene.aligned.encode(), np.uint8) != ord(GAP))
    before = np.concatenate([[0], np.cumsum(columns)])
    first = np.arange(0, len(place) - k + 1, stride)
    return before[place[first + k - 1] + 1] > before[place[first]]


def token_phases(gene: Gene, k: int = K, stride: int = STRIDE) -> np.ndarray:
    """Return by how many columns of the alignment each k-mer is shifted, modulo ``stride``: the gaps before it.

    >>> token_phases(Gene("x", "ACGTACG", aligned="ACG-TACG"), k=2, stride=2).tolist()
    [0, 0, 1]
    """
    gap = np.frombuffer(gene.aligned.encode(), np.uint8) == ord(GAP)
    before = np.cumsum(gap)[~gap]
    return before[0 : len(gene.bases) - k + 1 : stride] % stride


def word_counts(genes: Sequence[Gene]) -> dict[str, Counter]:
    """Count for each word in how many sequences of each class it occurs.

    >>> word_counts([Gene("x", "A" * 21, "one"),
    ...              Gene("y", "A" * 12, "two")])["A" * 12] == {"one": 1, "two": 1}
    True
    """
    counts: dict[str, Counter] = {}
    for gene in genes:
        for word in set(kmers(gene.bases)):
            counts.setdefault(word, Counter())[gene.label] += 1
    return counts


def telling_words(counts: Mapping[str, Counter], share: float = 0.9, least: int = 10) -> set[str]:
    """Name the words that at least ``least`` sequences have, ``share`` or more of them of one class."""
    return {
        word
        for word, by_class in counts.items()
        if by_class.total() >= least and max(by_class.values()) >= share * by_class.total()
    }


def rare_words(counts: Mapping[str, Counter], most: int = 3) -> set[str]:
    """Name the words that at most ``most`` sequences have; those of no sequence at all are rarer still."""
    return {word for word, by_class in counts.items() if by_class.total() <= most}
