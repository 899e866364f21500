"""What a classifier of genes has to be compared with: simple ones that need no attention and no order of the words.

Each has ``fit(genes)`` and ``predict(genes)``. :class:`Lookup` with :func:`by_length` or :func:`by_phase` knows nothing
of the bases at all; :class:`KmerRegression` sees the words that BERT sees, without their order; :class:`NearestLineage`
is what a biologist would do.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from book.lab.dna.fasta import GAP, Gene
from book.lab.dna.kmers import kmers
from book.lab.dna.phase import exchange_gaps, phases

LETTERS = np.frombuffer(b"ACGT-", np.uint8)


def by_length(gene: Gene) -> Hashable:
    """Return the number of bases."""
    return len(gene.bases)


def by_phase(gene: Gene) -> Hashable:
    """Return the phase of the words along the alignment (``phase.phases``), and nothing of the bases."""
    return phases(gene.aligned).tobytes()


def by_nothing(gene: Gene) -> Hashable:
    """Return the same for all genes: what is learned is the most frequent class."""
    return None


class Lookup:
    """Name the class that was most frequent in training among sequences with the same key.

    Ties go to the first class in the alphabet; a key that training never had gets the most frequent class of all.

    >>> train = [Gene("a", "ACG", "Mu"), Gene("b", "ACGT", "Beta"),
    ...          Gene("c", "ACCT", "Beta")]
    >>> Lookup(by_length).fit(train).predict([Gene("x", "TTT"), Gene("y", "T")])
    ['Mu', 'Beta']
    """

    def __init__(self, key: Callable[[Gene], Hashable] = by_nothing):
        """Take the key."""
        self.key, self.table, self.otherwise = key, {}, None

    def fit(self, genes: Sequence[Gene]) -> "Lookup":
        """Count the classes of each key."""
        counts: dict[Hashable, Counter] = {}
        for gene in genes:
            counts.setdefault(self.key(gene), Counter())[gene.label] += 1
        self.table = {key: _commonest(counter) for key, counter in counts.items()}
        self.otherwise = _commonest(Counter(gene.label for gene in genes))
        return self

    def predict(self, genes: Sequence[Gene]) -> list[str]:
        """Return a class for each sequence."""
        return [self.table.get(self.key(gene), self.otherwise) for gene in genes]


def _commonest(counter: Counter) -> str:
    return min(counter, key=lambda label: (-counter[label], label))


class KmerRegression:
    """Logistic regression on which k-mers are present; their order and number do not count.

    With ``aligned`` the words are cut from the alignment, gaps included as a letter, so that a deletion moves no later
    word; else from the bases alone, as BERT gets them. ``strength`` is the inverse of the penalty on squared weights. A
    word that training did not have counts for nothing. Words with ambiguity codes are words like others.
    """

    def __init__(self, aligned: bool = False, strength: float = 1.0):
        """Take the settings."""
        self.aligned, self.strength, self.words, self.model = aligned, strength, {}, None

    def fit(self, genes: Sequence[Gene]) -> "KmerRegression":
        """Build the vocabulary of the training words and fit one weight a word and class."""
        from sklearn.linear_model import LogisticRegression

        unique = sorted({word for gene in genes for word in self._cut(gene)})
        self.words = {word: column for column, word in enumerate(unique)}
        self.model = LogisticRegression(C=self.strength, max_iter=300, tol=1e-3)
        self.model.fit(self._presence(genes), [gene.label for gene in genes])
        return self

    def predict(self, genes: Sequence[Gene]) -> list[str]:
        """Return a class for each sequence."""
        return self.model.predict(self._presence(genes)).tolist()

    def _cut(self, gene: Gene) -> list[str]:
        return kmers(gene.aligned if self.aligned else gene.bases)

    def _presence(self, genes: Sequence[Gene]):
        from scipy.sparse import csr_matrix

        columns, ends = [], [0]
        for gene in genes:
            columns += sorted({self.words[word] for word in self._cut(gene) if word in self.words})
            ends.append(len(columns))
        return csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(genes), len(self.words)))


class NearestLineage:
    """Name the class of the lineage whose consensus differs in the fewest letters (Hamming distance).

    The consensus of a lineage is the most frequent of A, C, G, T and gap in each column of its training sequences.
    A sequence's ambiguous letters are not compared.

    With ``aligned`` columns of the alignment are compared, a gap being a fifth letter; else base with base counted from
    the first, so that everything after a deletion is compared with the wrong neighbour.

    >>> train = [Gene("a", "AAAA", "Mu", "m"), Gene("b", "CCCC", "Beta", "b")]
    >>> NearestLineage(aligned=False).fit(train).predict([Gene("x", "ANNA"),
    ...                                                   Gene("y", "CACC")])
    ['Mu', 'Beta']
    """

    def __init__(self, aligned: bool = True):
        """Take what is compared."""
        self.aligned, self.consensus, self.labels = aligned, None, []

    def fit(self, genes: Sequence[Gene]) -> "NearestLineage":
        """Take the consensus of each lineage."""
        self.width = max(len(self._row(gene)) for gene in genes)
        rows = self._rows(genes)
        members: dict[tuple[str, str], list[int]] = {}
        for i, gene in enumerate(genes):
            members.setdefault((gene.lineage, gene.label), []).append(i)
        keys = sorted(members)
        self.labels = [label for _, label in keys]
        self.consensus = np.stack(
            [LETTERS[np.stack([(rows[members[key]] == letter).sum(0) for letter in LETTERS]).argmax(0)] for key in keys]
        )
        return self

    def predict(self, genes: Sequence[Gene]) -> list[str]:
        """Return a class for each sequence; among equally near lineages, that of the first in the alphabet."""
        equal = _one_hot(self._rows(genes)) @ _one_hot(self.consensus).T  # compared letters less this: the distance
        return [self.labels[i] for i in equal.argmax(1)]

    def _row(self, gene: Gene) -> str:
        return gene.aligned if self.aligned else gene.bases

    def _rows(self, genes: Sequence[Gene]) -> np.ndarray:
        """Return letters as numbers, gaps at the end up to the longest of training; what is longer is cut."""
        text = "".join(self._row(gene)[: self.width].ljust(self.width, GAP) for gene in genes)
        return np.frombuffer(text.encode(), np.uint8).reshape(len(genes), self.width)


def _one_hot(rows: np.ndarray) -> np.ndarray:
    """Return five columns a letter; an ambiguous letter has none set, so it counts the same for every lineage."""
    return (rows[:, :, None] == LETTERS).reshape(len(rows), -1).astype(np.float32)


def hits(classifier, genes: Sequence[Gene]) -> np.ndarray:
    """Return for each sequence whether the classifier names its class."""
    return np.array([named == gene.label for named, gene in zip(classifier.predict(genes), genes)], dtype=bool)


BASELINES: dict[str, Callable] = {
    "majority": lambda: Lookup(by_nothing),
    "length": lambda: Lookup(by_length),
    "phase": lambda: Lookup(by_phase),
    "nearest": lambda: NearestLineage(aligned=True),
    "nearest-ungapped": lambda: NearestLineage(aligned=False),
    "kmers": lambda strength=1.0: KmerRegression(aligned=False, strength=strength),
    "kmers-gapped": lambda strength=1.0: KmerRegression(aligned=True, strength=strength),
}
"""``kmers`` and ``nearest-ungapped`` read the bases alone, as BERT does; ``kmers-gapped`` and ``nearest`` read the
alignment."""
STRENGTHS = (1.0, 0.01)
"""The penalties of the regression, of which the validation part chooses."""


def fitted(name: str, train: Sequence[Gene], validation: Sequence[Gene], strengths: Sequence[float] = STRENGTHS):
    """Fit a baseline on the training part; the validation part chooses the regression's penalty."""
    if not name.startswith("kmers"):
        return BASELINES[name]().fit(train)
    best, most = None, -1.0
    for strength in strengths:
        one = BASELINES[name](strength).fit(train)
        if (share := hits(one, validation).mean()) > most:
            best, most = one, share
        if most == 1:  # none of those left can be better
            break
    return best


def exchanged(genes: Sequence[Gene], fill: str, seed: int = 0) -> list[tuple[Gene, str]]:
    """Give each sequence the deletions of one of another class and another phase; return it with that class.

    Its label stays that of its bases. What was deleted before has the most frequent letter.
    """
    rng = np.random.default_rng(seed)
    keys = [by_phase(gene) for gene in genes]
    made = []
    for gene, key in zip(genes, keys):
        others = [i for i, other in enumerate(genes) if other.label != gene.label and keys[i] != key]
        if not others:
            continue
        other = genes[others[int(rng.integers(len(others)))]]
        aligned = exchange_gaps(gene.aligned, other.aligned, fill)
        made.append((replace(gene, aligned=aligned, bases=aligned.replace(GAP, "")), other.label))
    return made
