"""Reading FASTA files, plain or gzipped, with the class of each sequence; what is no sequence of bases is refused."""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

IUPAC = frozenset("ACGTRYSWKMBDHVN")
"""The four bases and the codes for an ambiguous one; ``U`` is read as ``T``."""

GAP = "-"


class BadSequence(ValueError):
    """A FASTA file holds something that cannot be used; the message names file, record and reason."""


@dataclass(frozen=True)
class Gene:
    """One sequence: ``bases`` in capitals; ``label`` its class; ``lineage`` and ``clade`` where they are known.

    ``aligned`` has a gap where the reference has a base and this sequence none, so that columns correspond.
    """

    name: str
    bases: str
    label: str = ""
    lineage: str = ""
    clade: str = ""
    aligned: str = ""


def read_fasta(path: str | Path, labels: str | Path | None = None, *, aligned: bool = False) -> list[Gene]:
    """Read every record of a FASTA file.

    Parameters
    ----------
    path
        The file; gzipped if its first two bytes say so.
    labels
        A TSV with the columns ``name`` and ``class``; without it, ``class=...`` in a header is the label.
    aligned
        Allow gaps; all records must then have the same number of columns.

    Ambiguity codes stay in the sequence, N among them. The paper says only that unique k-mers make the vocabulary
    (section 2.2), so a k-mer with such a letter is a word of its own if the training part has it, and unknown
    otherwise; it is never resolved, dropped or masked. A run of N gives the word of twelve N again and again.
    """
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8-sig")
    classes = _read_labels(labels) if labels is not None else None
    genes = [_gene(path, record, classes, aligned) for record in text.split(">")[1:]]
    if not genes:
        raise BadSequence(f"{path}: no FASTA record in it")
    for gene in genes:
        if len(gene.aligned) != len(genes[0].aligned):
            raise BadSequence(
                f"{path}: record {gene.name!r} has {len(gene.aligned)} columns, "
                f"{genes[0].name!r} has {len(genes[0].aligned)}: not aligned"
            )
    return genes


def _gene(path: str | Path, record: str, classes: dict[str, str] | None, aligned: bool) -> Gene:
    header, *lines = record.splitlines()
    name, *rest = header.split() or [""]
    said = dict(word.split("=", 1) for word in rest if "=" in word)
    letters = "".join("".join(lines).split()).upper().replace("U", "T")
    bases = letters.replace(GAP, "") if aligned else letters
    if not name or not bases:
        raise BadSequence(f"{path}: record {name or header!r} has no {'bases' if name else 'name'}")
    if wrong := sorted(set(bases) - IUPAC):
        raise BadSequence(f"{path}: record {name!r} holds {wrong[0]!r} at base {bases.index(wrong[0]) + 1}: no base")
    label = said.get("class", "") if classes is None else classes[name]
    return Gene(name, bases, label, said.get("nearest") or said.get("lineage", ""), aligned=letters if aligned else "")


def _read_labels(path: str | Path) -> dict[str, str]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return {row["name"].split()[0]: row["class"].strip() for row in csv.DictReader(file, delimiter="\t")}
