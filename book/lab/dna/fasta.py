"""Reading FASTA files, plain or gzipped, with a class label for each sequence; refusing what cannot be used."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

IUPAC = frozenset("ACGTRYSWKMBDHVN")
"""The four bases and the codes for an ambiguous one; ``U`` is read as ``T``."""

GAP = "-"
PROTEIN = frozenset("EFILPQZXJO*")
"""Letters of amino acids that no base is written with."""
MARK = "\xef\xbb\xbf"
"""What some editors put before UTF-8 text, byte by byte; it is left out."""
RECORD = 1_000_000
"""Characters of one record, header included, beyond which it is no gene of a virus: 260 spike genes in a row."""
FILE = 2**30
"""Characters of one file, unpacked: 280,000 spike genes, about what memory holds."""


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


def read_fasta(
    path: str | Path,
    labels: str | Path | None = None,
    *,
    longest: int | None = None,
    shortest: int = 1,
    aligned: bool = False,
) -> list[Gene]:
    """Read every record of a FASTA file.

    Parameters
    ----------
    path
        The file or pipe, or ``"-"`` for standard input; gzipped if its first two bytes say so.
    labels
        A TSV with the columns ``name`` and ``class``; without it, ``class=...`` in a header is the label.
    longest
        Refuse sequences of more bases than this (what fits the model).
    shortest
        Refuse sequences of fewer bases than this (one word).
    aligned
        Allow gaps; all records must then have the same number of columns.

    Raises
    ------
    BadSequence
        If the file is empty or no FASTA, unpacks to more than :data:`FILE` characters or holds a record of more than
        :data:`RECORD` (nothing beyond these is unpacked), a record is empty, too long or too short, a name occurs
        twice or cannot be printed, a letter is not in the IUPAC alphabet, a header gives two classes, or ``labels``
        lacks a name, has one twice or has none in a row.

    Notes
    -----
    Ambiguity codes stay in the sequence, N among them. The paper says only that unique k-mers make the vocabulary
    (section 2.2), so a k-mer with such a letter is a word of its own if the training part has it, and unknown
    otherwise; it is never resolved, dropped or masked. A run of N gives the word of twelve N again and again.
    """
    return list(iterate_fasta(path, labels, longest=longest, shortest=shortest, aligned=aligned))


def iterate_fasta(
    path: str | Path,
    labels: str | Path | None = None,
    *,
    longest: int | None = None,
    shortest: int = 1,
    aligned: bool = False,
) -> Iterator[Gene]:
    """Yield the records of a FASTA file as they are read; see :func:`read_fasta`."""
    table = _read_labels(labels) if labels is not None else None
    columns, seen = None, set()
    source, path = path, Path("standard input") if path == "-" else Path(path)
    for header, bases in _records(path, source):
        gene = _gene(path, header, bases, table, aligned)
        if longest is not None and len(gene.bases) > longest:
            raise BadSequence(f"{path}: record {gene.name!r} has {len(gene.bases)} bases, {longest} fit the model")
        if len(gene.bases) < shortest:
            raise BadSequence(f"{path}: record {gene.name!r} has {len(gene.bases)} bases, {shortest} are needed")
        columns = columns or (len(gene.aligned), gene.name)
        if len(gene.aligned) != columns[0]:
            raise BadSequence(
                f"{path}: record {gene.name!r} has {len(gene.aligned)} columns, "
                f"{columns[1]!r} has {columns[0]}: not aligned"
            )
        if gene.name in seen:
            raise BadSequence(f"{path}: the name {gene.name!r} occurs twice")
        seen.add(gene.name)
        yield gene
    if not seen:
        raise BadSequence(f"{path}: no FASTA record in it")


def _records(path: Path, source: str | Path) -> Iterator[tuple[str, str]]:
    header, lines, size = None, [], 0
    for line in _lines(path, source):
        begins = line.startswith(">")
        size = len(line) if begins else size + len(line)
        if size > RECORD:
            name = (line[1:] if begins else header or "")[:40].strip()
            raise BadSequence(f"{path}: record {name!r} has more than {RECORD:,} characters: no gene")
        if begins:
            if header is not None:
                yield header, "".join(lines)
            header, lines = line[1:].strip(), []
        elif line.strip():
            if header is None:
                raise BadSequence(f"{path}: does not begin with '>': no FASTA file")
            lines.append("".join(line.split()))
    if header is not None:
        yield header, "".join(lines)


class _Whole(io.RawIOBase):
    """A stream with what was read from its beginning put back: a pipe cannot be read from the beginning again."""

    def __init__(self, beginning: bytes, rest: io.BufferedIOBase):
        self.beginning, self.rest = beginning, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if not self.beginning:
            return self.rest.readinto1(buffer)
        part, self.beginning = self.beginning[: len(buffer)], self.beginning[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _lines(path: Path, source: str | Path) -> Iterator[str]:
    """Unpack a line at a time, and no line further than a record may be long."""
    with nullcontext(sys.stdin.buffer) if source == "-" else path.open("rb") as raw:
        beginning = raw.read(2)
        whole = io.BufferedReader(_Whole(beginning, raw))
        packed = beginning == b"\x1f\x8b"
        text = io.TextIOWrapper(gzip.GzipFile(fileobj=whole) if packed else whole, encoding="latin-1", newline="")
        read = 0
        while line := _line(path, text):
            line = line if read else line.removeprefix(MARK)
            if not line.isascii():
                wrong = next(i for i, letter in enumerate(line) if not letter.isascii())
                raise BadSequence(
                    f"{path}: not a whole FASTA file in plain or gzipped ASCII: byte {read + wrong + 1} "
                    f"is {ord(line[wrong]):#04x}"
                )
            yield line
            read += len(line)
            if read > FILE:
                raise BadSequence(f"{path}: more than {FILE:,} characters unpacked: too much for one file, cut it up")


def _line(path: Path, text: io.TextIOWrapper) -> str:
    try:
        return text.readline(RECORD + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadSequence(f"{path}: not a whole FASTA file: {error}") from None


def _gene(path: Path, header: str, letters: str, table: dict[str, str] | None, aligned: bool) -> Gene:
    name, *rest = header.split() or [""]
    pairs = [word.split("=", 1) for word in rest if "=" in word]
    said = dict(pairs)
    if len({value for key, value in pairs if key == "class"}) > 1:
        raise BadSequence(f"{path}: record {name!r} gives two classes in its header")
    if not name.isprintable():
        raise BadSequence(f"{path}: record {name!r} has a name that cannot be printed")
    letters = letters.upper().replace("U", "T")
    bases = letters.replace(GAP, "") if aligned else letters
    if not name or not bases:
        raise BadSequence(f"{path}: record {name or header!r} has no {'bases' if name else 'name'}")
    if wrong := sorted(set(bases) - IUPAC):
        raise BadSequence(
            f"{path}: record {name!r} holds {wrong[0]!r} at base {bases.index(wrong[0]) + 1}; "
            f"allowed are {''.join(sorted(IUPAC))} (ungapped)"
            + ("; it looks like a protein" if PROTEIN & set(wrong) else "")
        )
    if table is not None and name not in table:
        raise BadSequence(f"{path}: the table of labels has no row for {name!r}")
    label = table[name] if table is not None else said.get("class", "")
    lineage = said.get("nearest") or said.get("lineage", "")
    return Gene(name, bases, label, lineage, aligned=letters if aligned else "")


def _read_labels(path: str | Path) -> dict[str, str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSequence(f"{path}: not a table of labels in UTF-8: {error.reason} at byte {error.start + 1}") from None
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    if not rows or not {"name", "class"} <= set(rows[0]):
        raise BadSequence(f"{path}: a table of labels needs the columns 'name' and 'class', tab-separated")
    name, label = rows[0].index("name"), rows[0].index("class")
    table: dict[str, str] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) <= max(name, label) or not row[name].strip() or not row[label].strip():
            raise BadSequence(f"{path}: row {number} of the table of labels lacks a column")
        key = row[name].split()[0]  # a FASTA name ends at the first blank
        if key in table:
            raise BadSequence(f"{path}: the table of labels has two rows for {key!r}")
        table[key] = row[label].strip()
    return table
