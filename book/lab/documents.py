"""Bundled documents of four kinds of text and of two other languages, six of each: what depends on what a model reads?

Units of an interval are documents: pieces of one document are not independent of each other. Passages for a census,
all of one reference, are in :mod:`analysis.data.texts`.
"""

import json
from dataclasses import dataclass

from book.lab import models

BUNDLED = models.BUNDLED / "texts" / "documents.jsonl"
KINDS = ("technical prose", "legal prose", "program code", "narrative")
LANGUAGES = ("German", "French")


@dataclass(frozen=True)
class Document:
    """One text: its kind, one of :data:`KINDS` or :data:`LANGUAGES`, where it is from, and its words."""

    kind: str
    name: str
    text: str


def load_documents(*kinds: str, each: int | None = None) -> list[Document]:
    """Return the bundled documents, kind by kind.

    The kinds are of :data:`KINDS`, all by default, or of :data:`LANGUAGES`; ``each`` limits every one.

    >>> len(load_documents())
    24
    >>> [document.name for document in load_documents("narrative", each=2)]
    ['The lock keeper', 'Two maps']
    """
    if unknown := set(kinds) - {*KINDS, *LANGUAGES}:
        raise ValueError(f"kinds must be of {', '.join(KINDS + LANGUAGES)}, got {', '.join(sorted(unknown))}")
    rows = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
    of_kind = {
        kind: [Document(kind, row["name"], row["text"]) for row in rows if row["kind"] == kind]
        for kind in kinds or KINDS
    }
    return [document for documents in of_kind.values() for document in documents[:each]]
