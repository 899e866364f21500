"""Which pages the book has."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
HTML = ROOT / "_build" / "html"


def toc_pages() -> list[str]:
    """Return the pages of the table of contents, as ``book/semi-bias``, in order."""
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    return re.findall(r"^\s*(?:root|- file): (\S+)", toc, re.MULTILINE)


PAGES = toc_pages()
