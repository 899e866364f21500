"""The reports that are built with the book: one page for each small model, made by ``python -m analysis report``."""

import hashlib
import shutil
from pathlib import Path

from analysis.core.files import write_atomically
from analysis.models import checkpoints
from book.publish import execution

MODELS = ("minilm", "gpt2-mini", "neox-mini")
TEXTS = 8
"""How many of the bundled passages are read: enough for a page that shows what a report is."""
MADE = execution.BUILD / "reports"
BOOK = "../../book"


def digest(name: str) -> str:
    """Name what a report is made of: the library's code, and the model's files."""
    library = execution.ROOT / "analysis"
    sources = sorted(path for pattern in ("*.py", "*.html", "*.mplstyle") for path in library.rglob(pattern))
    total = hashlib.sha256(repr((checkpoints.find(name).provenance()["sha256"], TEXTS, BOOK)).encode())
    for path in sources:
        total.update(path.read_bytes())
    return total.hexdigest()


def make_reports(html: Path) -> list[Path]:
    """Make the reports that are out of date, and put all of them into the built book; return their pages."""
    from analysis.report.making import make_report

    pages = []
    for name in MODELS:
        folder, mark, current = MADE / name, MADE / f"{name}.digest", digest(name)
        if not mark.exists() or mark.read_text(encoding="utf-8") != current:
            folder.mkdir(parents=True, exist_ok=True)
            make_report(name, folder, count=TEXTS, book=BOOK)
            write_atomically(mark, current)
        place = html / "reports" / name
        shutil.copytree(folder, place, dirs_exist_ok=True)
        pages.append(place / "index.html")
    return pages
