"""The work that the document cites, and when arXiv gave it its identifier."""

import re
from dataclasses import dataclass
from pathlib import Path

from pybtex.database import parse_file

from book.publish import ledger

BIBLIOGRAPHY = Path(__file__).parents[2] / "references.bib"


@dataclass(frozen=True)
class Citation:
    """The work that the document cites: its arXiv identifier, and the year that the document prints."""

    identifier: str
    printed_year: int

    @property
    def dated(self) -> tuple[int, int]:
        """The year and the month of the identifier."""
        return arxiv_month(self.identifier)


def arxiv_month(identifier: str) -> tuple[int, int]:
    """Return the year and the month in which arXiv gave a work its identifier, ``YYMM.NNNNN`` since April 2007.

    Examples
    --------
    >>> arxiv_month("0704.0001"), arxiv_month("2406.19384")
    ((2007, 4), (2024, 6))
    """
    if not re.fullmatch(r"\d\d(0[1-9]|1[0-2])\.\d{4,5}", identifier):
        raise ValueError(f"identifier must be of the form YYMM.NNNNN, got {identifier!r}")
    return 2000 + int(identifier[:2]), int(identifier[2:4])


def find_citation() -> Citation:
    """Look up the identifier of the work that the document cites, and the year that the document prints."""
    printed = next(claim.claim for claim in ledger.claims() if claim.id == "K-26")
    return Citation(
        parse_file(str(BIBLIOGRAPHY)).entries["lad2024stages"].fields["eprint"], int(re.search(r"\d{4}", printed)[0])
    )
