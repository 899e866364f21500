"""The reading phase of k-mers: what a deletion does to every word after it, and how to take that apart.

Words begin every nine bases, counted from the sequence's first base. A deletion of three bases moves every later word
by three columns of the alignment; only after nine deleted bases the words are the old ones again. So all later
words tell of the deletion, whatever bases stand there. Here are that shift, sequences with one half of the evidence
removed (only deletions, only substitutions), and sequences with one class's bases and another's deletions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from book.lab.dna.fasta import GAP
from book.lab.dna.kmers import STRIDE
from book.lab.dna.simulate import Backbone


def phases(aligned: str, stride: int = STRIDE) -> np.ndarray:
    """Return the phase at every ``stride``-th column: gaps before it modulo ``stride``, in bases.

    A column that is itself a gap has the phase of the next base.

    >>> phases("ACG--TACGTAC", stride=3)
    array([0, 2, 2, 2])
    >>> phases("ACG---TACGTA", stride=3)  # three gaps leave words where they were
    array([0, 0, 0, 0])
    """
    gap = np.frombuffer(aligned.encode(), np.uint8) == ord(GAP)
    before = np.cumsum(gap)
    bases = np.flatnonzero(~gap)
    following = np.minimum(np.searchsorted(bases, np.arange(len(gap))), len(bases) - 1)
    return before[bases[following]][::stride] % stride


def fill_letters(rows: Sequence[str]) -> str:
    """Return the most frequent letter of each column, gaps not counted; the first in the alphabet among equals.

    >>> fill_letters(["AC-T", "AG-T", "-C-A"])
    'AC-T'
    """
    columns = (Counter(letter for letter in column if letter != GAP) for column in zip(*rows, strict=True))
    return "".join(min(counts, key=lambda c: (-counts[c], c)) if counts else GAP for counts in columns)


def only_deletions(backbones: Sequence[Backbone]) -> list[Backbone]:
    """Return the backbones with their gaps, and everywhere else the same bases: phase is all that tells them apart.

    >>> [b.aligned for b in only_deletions([Backbone("a", "a", "A-GT"),
    ...                                     Backbone("b", "b", "ACTT")])]
    ['A-GT', 'ACGT']
    """
    fill = fill_letters([b.aligned for b in backbones])
    return [replace(b, aligned=exchange_gaps(fill, b.aligned, fill)) for b in backbones]


def only_substitutions(backbones: Sequence[Backbone]) -> list[Backbone]:
    """Return the backbones with their bases and every gap filled: all have one length and one phase.

    >>> [b.aligned for b in only_substitutions([Backbone("a", "a", "A-GT"),
    ...                                         Backbone("b", "b", "ACTT")])]
    ['ACGT', 'ACTT']
    """
    fill = fill_letters([b.aligned for b in backbones])
    return [replace(b, aligned=exchange_gaps(b.aligned, fill, fill)) for b in backbones]


def exchange_gaps(aligned: str, gaps_of: str, fill: str) -> str:
    """Return the bases of one sequence with the gaps of another; what was a gap before has the letter of ``fill``.

    >>> exchange_gaps("AC-TA", "-CGTA", "AAGTA")
    '-CGTA'
    """
    return "".join(GAP if g == GAP else f if own == GAP else own for own, g, f in zip(aligned, gaps_of, fill))


def place(bases: str, templates: Sequence[str]) -> str:
    """Align a sequence by borrowing the gaps of the template that then differs in the fewest known bases.

    Only templates with as many bases are asked, so an insertion or deletion that no template has is refused.

    >>> place("ACGN", ["A-CCT", "ACGT-", "ACGTT"])
    'ACGN-'
    """
    best, row = None, None
    letters_of_gene = np.frombuffer(bases.encode(), np.uint8)
    known = np.isin(letters_of_gene, np.frombuffer(b"ACGT", np.uint8))
    for template in dict.fromkeys(templates):
        letters = np.frombuffer(template.encode(), np.uint8)
        columns = np.flatnonzero(letters != ord(GAP))
        if len(columns) != len(letters_of_gene):
            continue
        apart = int(((letters[columns] != letters_of_gene) & known).sum())
        if best is None or apart < best:
            row = np.full(len(letters), ord(GAP), np.uint8)
            row[columns] = letters_of_gene
            best = apart
    if row is None:
        raise ValueError(f"no template has {len(bases)} bases, so the sequence cannot be placed")
    return row.tobytes().decode()
