"""Making sequences around lineage backbones, where the real ones may not be passed on.

A backbone is a lineage's consensus. A clade adds substitutions that all its tips share; a tip adds its own, runs of
N and single Ns. Substitutions follow the virus's bias to C>T and G>T and never make a stop codon. Backbones are
read from a folder (real lineages) or invented (:func:`invent_backbones`): pages must say which.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from book.lab.dna.fasta import GAP, BadSequence, Gene, read_fasta

STOPS = frozenset({"TAA", "TAG", "TGA"})
CLASSES = ("Alpha", "Beta", "Gamma", "Delta", "Omicron", "GH/490R", "Lambda", "Mu")

# Share of each kind of substitution; after the published spectra, C>T first, then G>T (rounded; not fitted here).
SPECTRUM = {
    "CT": 0.42,
    "GT": 0.16,
    "AG": 0.11,
    "TC": 0.09,
    "GA": 0.08,
    "CA": 0.03,
    "AT": 0.03,
    "TA": 0.02,
    "AC": 0.02,
    "TG": 0.02,
    "GC": 0.01,
    "CG": 0.01,
}
_KINDS = tuple(SPECTRUM)
_CUMULATIVE = np.cumsum(list(SPECTRUM.values())) / sum(SPECTRUM.values())


@dataclass(frozen=True)
class Backbone:
    """A lineage's consensus sequence: ``aligned`` has a gap in every column where others have a base."""

    name: str
    label: str
    aligned: str


COLUMNS = ("class", "lineage", "substitutions", "deletions", "insertions")


def read_backbones(folder: str | Path) -> list[Backbone]:
    """Read lineages, aligned: a folder of real ones, or a FASTA file of one's own.

    A folder holds ``reference_S.fasta`` and ``lineages.tsv``; the alignment follows from the table's substitutions,
    deletions and insertions and is checked against the published sequence in ``lineages_S.fasta.gz``. A FASTA file
    is aligned already, with ``-`` for a gap and ``class=NAME`` in every header.
    """
    folder = Path(folder)
    if folder.is_file():
        return _from_fasta(folder)
    reference = read_fasta(folder / "reference_S.fasta")[0].bases
    published = {gene.name: gene.bases for gene in read_fasta(folder / "lineages_S.fasta.gz")}
    head, *rows = (folder / "lineages.tsv").read_text(encoding="utf-8").splitlines()
    table = [dict(zip(head.split("\t"), row.split("\t"))) for row in rows]
    if lacking := set(COLUMNS) - set(head.split("\t")):
        raise ValueError(f"{folder / 'lineages.tsv'} lacks the column {min(lacking)!r}")
    inserted: dict[int, int] = {}
    for row in table:
        for place, bases in _insertions(row):
            inserted[place] = max(inserted.get(place, 0), len(bases))
    backbones = []
    for row in table:
        aligned = _align(reference, row, inserted)
        if aligned.replace(GAP, "") != published[row["lineage"]]:
            raise ValueError(f"{folder}: {row['lineage']} rebuilt from lineages.tsv differs from its sequence")
        backbones.append(Backbone(row["lineage"], row["class"], aligned))
    return backbones


def _from_fasta(path: Path) -> list[Backbone]:
    genes = read_fasta(path, aligned=True)
    if nameless := [gene.name for gene in genes if not gene.label]:
        raise BadSequence(f"{path}: record {nameless[0]!r} needs class=NAME in its header to serve as a backbone")
    return [Backbone(gene.name, gene.label, gene.aligned) for gene in genes]


_FIRST = 21563  # genome position of the gene's first base


def _insertions(row: dict) -> list[tuple[int, str]]:
    parts = (item.split(":") for item in row["insertions"].split(",") if item)
    return [(int(place) - _FIRST, bases) for place, bases in parts]


def _align(reference: str, row: dict, inserted: dict[int, int]) -> str:
    bases = list(reference)
    for item in filter(None, row["substitutions"].split(",")):
        bases[int(item[1:-1]) - _FIRST] = item[-1]
    for item in filter(None, row["deletions"].split(",")):
        first, last = (item.split("-") * 2)[:2]
        for place in range(int(first) - _FIRST, int(last) - _FIRST + 1):
            bases[place] = GAP
    own = dict(_insertions(row))
    for place, width in inserted.items():
        bases[place] += own.get(place, "").ljust(width, GAP)
    return "".join(bases)


def invent_backbones(
    seed: int = 0,
    *,
    codons: int = 1274,
    lineages: Sequence[int] = (4, 3, 9, 24, 24, 1, 2, 4),
    labels: Sequence[str] = CLASSES,
    gene: str | None = None,
) -> list[Backbone]:
    """Invent a gene and lineages of eight classes: random codons, class and lineage substitutions, deletions.

    Classes differ by 6 to 30 substitutions and up to three deletions of 3, 6 or 9 bases, so that lengths and
    reading phases differ between classes as those of the real ones do. Nothing of it is viral, unless ``gene``, whole
    codons from start to stop, takes the place of the random ones; the classes are invented even so.
    """
    rng = np.random.default_rng(seed)
    if gene is None:
        senses = [a + b + c for a in "ACGT" for b in "ACGT" for c in "ACGT" if a + b + c not in STOPS]
        gene = "ATG" + "".join(rng.choice(senses, codons - 2)) + "TAA"
    codons, rest = divmod(len(gene), 3)
    if rest or codons < 60:
        raise ValueError(f"a gene has at least 60 whole codons, got {len(gene)} bases")
    backbones = []
    for label, count in zip(labels, lineages, strict=True):
        ancestor = _mutated(np.frombuffer(gene.encode(), np.uint8).copy(), int(rng.integers(6, 31)), rng)
        gaps = [
            (3 * int(rng.integers(20, codons - 20)), 3 * int(rng.integers(1, 4)))
            for _ in range(int(rng.integers(0, 4)))
        ]
        for number in range(count):
            bases = _mutated(ancestor.copy(), int(rng.integers(0, 7)) if number else 0, rng)
            for place, width in gaps:
                bases[place : place + width] = ord(GAP)
            backbones.append(Backbone(f"{label}.{number}", label, bases.tobytes().decode()))
    return backbones


def _mutated(bases: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Put ``count`` substitutions into ungapped bases (changed in place), sparing the first and last codon."""
    while count:
        kind = _KINDS[int(np.searchsorted(_CUMULATIVE, rng.random()))]
        site = int(rng.integers(3, len(bases) - 3))
        if bases[site] != ord(kind[0]):
            continue
        start = site - site % 3
        codon = bytearray(bases[start : start + 3])
        codon[site - start] = ord(kind[1])
        if codon.decode() not in STOPS:
            bases[site] = ord(kind[1])
            count -= 1
    return bases


def simulate(
    backbones: Sequence[Backbone],
    count: int,
    seed: int = 0,
    *,
    clades: int = 6,
    shared: float = 3.0,
    private: float = 2.0,
    runs: float = 0.08,
    singles: float = 0.3,
) -> Iterator[Gene]:
    """Yield ``count`` distinct sequences, the same number for each class as nearly as can be.

    A lineage has so many sub-clades; ``shared`` and ``private`` are the mean numbers of substitutions (Poisson) that a
    clade shares and that a tip has for itself, ``runs`` the probability of a run of 10 to 200 Ns, ``singles`` the mean
    number of single Ns (Poisson).
    """
    if not backbones or count < 0:
        raise ValueError(f"needs backbones and a count of 0 or more, got {len(backbones)} and {count}")
    rng = np.random.default_rng(seed)
    by_class: dict[str, list[Backbone]] = {}
    for backbone in backbones:
        by_class.setdefault(backbone.label, []).append(backbone)
    labels = list(by_class)
    made: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}
    seen: set[bytes] = set()
    number = 0
    while number < count:
        lineage = by_class[labels[number % len(labels)]]
        backbone = lineage[int(rng.integers(len(lineage)))]
        clade = int(rng.integers(clades))
        if (backbone.name, clade) not in made:
            made[backbone.name, clade] = _clade(backbone, clade, shared, seed)
        template, columns = made[backbone.name, clade]
        tip = template.copy()
        tip[columns] = _spoilt(_mutated(template[columns], int(rng.poisson(private)), rng), runs, singles, rng)
        if (key := tip.tobytes()) in seen:
            continue
        seen.add(key)
        aligned = key.decode()
        yield Gene(
            f"{backbone.name}/{clade}/{number}",
            aligned.replace(GAP, ""),
            backbone.label,
            backbone.name,
            f"{backbone.name}/{clade}",
            aligned,
        )
        number += 1


def _clade(backbone: Backbone, clade: int, shared: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a clade's template; it depends on its name and the seed alone, not on the order of drawing."""
    name = int.from_bytes(backbone.name.encode(), "big") % 2**63
    rng = np.random.default_rng([seed, clade, name])
    template = np.frombuffer(backbone.aligned.encode(), np.uint8).copy()
    columns = np.flatnonzero(template != ord(GAP))
    template[columns] = _mutated(template[columns], int(rng.poisson(shared)), rng)
    return template, columns


def _spoilt(bases: np.ndarray, runs: float, singles: float, rng: np.random.Generator) -> np.ndarray:
    """Replace bases by N as sequencing does: now and then a run, here and there a single one."""
    if rng.random() < runs:
        start = int(rng.integers(len(bases)))
        bases[start : start + int(rng.integers(10, 201))] = ord("N")
    bases[rng.integers(len(bases), size=int(rng.poisson(singles)))] = ord("N")
    return bases
