"""What is built with the book besides its pages: a report on each small model, and the papers judged with the kit."""

import hashlib
import shutil
from pathlib import Path

from analysis.core.files import MARK, WRITTEN, write_atomically
from analysis.models import checkpoints
from book.publish import execution

MODELS = ("minilm", "gpt2-mini", "neox-mini")
TEXTS = 8
"""How many of the bundled passages are read: enough for a page that shows what a report is."""
MADE = execution.BUILD / "reports-made"
PAPERS = execution.ROOT / "claims" / "examples"
BOOK = "../../book"


def digest(name: str) -> str:
    """Name what a report is made of: the library's code, and the model's files; or the kit's, and the papers'."""
    about = checkpoints.find(name).provenance() if name in MODELS else {}
    said = repr((about.get("sha256"), about.get("settings"), TEXTS, BOOK))
    sources = ("analysis", *((execution.KIT, "claims/examples") if name == PAPERS.name else ()))
    return hashlib.sha256(f"{said}\n{execution.hashed(execution.ROOT, sources)}".encode()).hexdigest()


def out_of_date() -> list[str]:
    """Name what was not made with the present library and files: models by name, and the papers."""

    def mark(name: str) -> str:
        path = MADE / f"{name}.digest"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    return [name for name in (*MODELS, PAPERS.name) if mark(name) != digest(name)]


def make_reports() -> None:
    """Make what is out of date."""
    for name in out_of_date():
        if name == PAPERS.name:
            judge_papers()
        else:
            make_report(name)
        write_atomically(MADE / f"{name}.digest", digest(name))


def make_report(name: str) -> None:
    """Write the page about a model."""
    from analysis.reporting.making import FILES, report

    for file in FILES:  # of an earlier build, which may have kept no list of what it wrote
        (MADE / name / file).unlink(missing_ok=True)
    report(name, out=MADE / name, count=TEXTS, book=BOOK)


def judge_papers() -> None:
    """Write a page about each paper that was judged with the kit; a claim without a verdict ends the build."""
    from claims_kit import __main__ as kit

    if kit.check([PAPERS], MADE / PAPERS.name):
        raise SystemExit("a paper's claim is open")


def place_reports(html: Path) -> None:
    """Put all reports into the built book."""
    places = {**{name: f"reports/{name}" for name in MODELS}, PAPERS.name: "judged"}
    for name, place in places.items():
        shutil.copytree(MADE / name, html / place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MARK, WRITTEN))


if __name__ == "__main__":
    make_reports()
