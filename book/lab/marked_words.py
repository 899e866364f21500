"""Words of a gene that one would expect attention to go to, and what attention such words get, over the mean word.

[CLS], which is no k-mer, is left out of this.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.statistics.intervals import rotations
from book.lab.dna import sites
from book.lab.dna.fasta import GAP, Gene
from book.lab.dna.kmers import kmers
from book.lab.dna.simulate import Backbone
from book.lab.training.dna_classifier import Data

MARKS = ("site", "any site", "telling", "rare")
MASSES = ("columns", "received", "class_row")


def marks(data: Data, genes: Sequence[Gene]) -> list[dict[str, np.ndarray]]:
    """Mark the k-mers of each sequence.

    Returns
    -------
    list of dict
        For each sequence: ``site``, covers a column where its class has left what most classes have; ``any site``,
        where any class has; ``telling``, a word that 10 or more training sequences have, 9 in 10 of them of one class;
        ``rare``, a word that at most 3 of them have, or none.
    """
    training = [data.genes[i] for i in data.parts.train]
    defining = sites.defining_columns(consensuses(training))
    counts = sites.word_counts(training)
    telling, rare = sites.telling_words(counts), sites.rare_words(counts)
    found = []
    for gene in genes:
        cut = kmers(gene.bases)
        found.append(
            {
                "site": sites.mark_tokens(gene, defining[gene.label]),
                "any site": sites.mark_tokens(gene, np.logical_or.reduce(list(defining.values()))),
                "telling": np.array([word in telling for word in cut]),
                "rare": np.array([word in rare or word not in counts for word in cut]),
            }
        )
    return found


def consensuses(genes: Sequence[Gene]) -> list[Backbone]:
    """Return each lineage's most frequent letter in every column, from its sequences."""
    by_lineage: dict[tuple[str, str], list[str]] = {}
    for gene in genes:
        by_lineage.setdefault((gene.label, gene.lineage), []).append(gene.aligned)
    return [Backbone(lineage, label, _most_frequent(rows)) for (label, lineage), rows in sorted(by_lineage.items())]


def _most_frequent(rows: Sequence[str]) -> str:
    table = np.array([np.frombuffer(row.encode(), np.uint8) for row in rows])
    letters = np.frombuffer(f"{GAP}ACGT".encode(), np.uint8)
    return letters[np.stack([(table == letter).sum(0) for letter in letters]).argmax(0)].tobytes().decode()


def profiles(data: Data, genes: Sequence[Gene], measured: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the masses along the first sequences, ``(sequence, mass, key)``, and their marks; filled up with zeros."""
    longest = max(len(kmers(gene.bases)) for gene in genes)
    mass = np.zeros((len(genes), len(MASSES), longest), np.float32)
    marked = np.zeros((len(genes), len(MARKS), longest), bool)
    for i, (one, found) in enumerate(zip(measured, marks(data, genes))):
        for j, name in enumerate(MASSES):
            mass[i, j, : one[name].shape[1] - 1] = one[name].mean(0)[1:]
        for j, kind in enumerate(MARKS):
            marked[i, j, : len(found[kind])] = found[kind]
    return {"profile": mass, "profile_marks": marked}


def by_sequence(profile: np.ndarray, marked: np.ndarray, mass: str = "columns") -> np.ndarray:
    """Compare marked words with all, sequence by sequence, from what :func:`profiles` returned.

    Returns
    -------
    np.ndarray
        ``(sequence, mark, 3)``: the ratio, and the bounds of 95 % of all turns of the marks; zeros where a sequence
        has no such word.
    """
    found = np.zeros((len(profile), len(MARKS), 3))
    for i, (masses, kinds) in enumerate(zip(profile, marked)):
        words = int(np.flatnonzero(masses[MASSES.index("received")]).max()) + 1
        weights = masses[MASSES.index(mass), :words]
        for j, kind in enumerate(kinds[:, :words]):
            if kind.any() and weights.any():
                ratios = rotations(weights.astype(float), kind)
                found[i, j] = ratios[0], *np.quantile(ratios, [0.025, 0.975])
    return found
