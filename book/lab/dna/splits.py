"""Parting sequences into training, validation and test: by sequence, by clade or by lineage."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from book.lab.dna.fasta import Gene

UNITS = ("sequence", "clade", "lineage")


@dataclass(frozen=True)
class Split:
    """Indices into the list that was parted, none in two parts."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(
    genes: Sequence[Gene], by: str = "sequence", seed: int = 0, shares: tuple[float, float] = (0.1, 0.2)
) -> Split:
    """Part sequences so that no unit (sequence, clade or lineage) is in two parts, class by class.

    Parameters
    ----------
    by
        One of :data:`UNITS`. A class with fewer than three lineages cannot be parted by lineage; it is parted by
        clade instead, so that every class is in every part.
    shares
        Of validation and test, counted in units; each gets one unit of a class at least.
    """
    rng = np.random.default_rng(seed)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in sorted({gene.label for gene in genes}):
        units = _units([i for i, gene in enumerate(genes) if gene.label == label], genes, by)
        if len(units) < 3:
            raise ValueError(f"class {label!r} has {len(units)} {by}s, three are needed to part it")
        order = rng.permutation(len(units))
        validation = max(1, round(shares[0] * len(units)))
        test = max(1, round(shares[1] * len(units)))
        for rank, unit in enumerate(order):
            part = 2 if rank < test else 1 if rank < test + validation else 0
            parts[part].extend(units[unit])
    train, validation, test = (np.array(sorted(part)) for part in parts)
    return Split(train, validation, test)


def unit_names(genes: Sequence[Gene], by: str) -> list[str]:
    """Return the unit of each sequence: what :func:`split` keeps together, and what is independent in an interval.

    >>> unit_names([Gene("x", "A", "Mu", "m", "m/1"), Gene("y", "A", "Mu", "m", "m/2")],
    ...            "lineage")
    ['m/1', 'm/2']
    """
    if by == "sequence":
        return [gene.name for gene in genes]
    lineages: dict[str, set[str]] = {}
    for gene in genes:
        lineages.setdefault(gene.label, set()).add(gene.lineage)
    return [gene.clade if by == "clade" or len(lineages[gene.label]) < 3 else gene.lineage for gene in genes]


def _units(members: list[int], genes: Sequence[Gene], by: str) -> list[list[int]]:
    if by == "sequence":
        return [[i] for i in members]
    units: dict[str, list[int]] = {}
    for i, name in zip(members, unit_names([genes[i] for i in members], by)):
        units.setdefault(name, []).append(i)
    return [units[name] for name in sorted(units)]
