"""What each story of the book holds, and what it may hold.

A story is a page of a numbered part of the contents that is no evidence. Words are those of its prose and captions, but
for the exercises; a number is one that a reader meets in a sentence, outside formulas. Each cell that a reader sees
is executed after the first in an empty folder, where ``analysis`` can be imported and ``book`` cannot.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from myst_nb.core.read import read_myst_markdown_notebook

from tests.book.pages.book_pages import ROOT
from tools import vocabulary

HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
MOST = {"words": 1800, "figures": 5, "tables": 1, "cells": 6}
EXERCISES = re.compile(r"^(`{3,})\{(?:exercise|solution)\b.*?^\1\s*$", re.DOTALL | re.MULTILINE)
NUMBERS = re.compile(r"\{number\}`[^`]*`|(?<![\w.,-])-?\d[\d,.]*(?![\w-])")
LINK = re.compile(r"\{[\w:]+\}`([^`<]*?)\s*<[^`]*>`")
DRAWN = re.compile(r"^(`{3,})\{(?:picture|viewer|figure)\}|^\s+figure:\s*$", re.MULTILINE)
TABLE = re.compile(r"^\|(?:\s*:?-+:?\s*\|)+\s*$|^`{3,}\{(?:list-)?table\}", re.MULTILINE)
RUN = """
import importlib.abc, json, os, sys, traceback
class NoBook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "book":
            raise ModuleNotFoundError(f"a story does without {name}")
sys.meta_path.insert(0, NoBook())
first, *others = json.loads(sys.stdin.read())
space = {"__name__": "__main__"}
exec(compile(first, "cell 1", "exec"), space)
for n, cell in enumerate(others, 2):
    sys.stdout.flush()
    if not (child := os.fork()):
        try:
            exec(compile(cell, f"cell {n}", "exec"), dict(space))
            sys.stdout.flush()
        except BaseException:
            print(f"cell {n}: {traceback.format_exc().strip().splitlines()[-1]}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@dataclass(frozen=True)
class Story:
    """What a story holds."""

    page: str
    words: int
    numbers: int
    figures: int
    tables: int
    cells: tuple[str, ...]

    @property
    def density(self) -> float:
        """Numbers in a hundred words."""
        return 100 * self.numbers / max(self.words, 1)


def pages() -> list[str]:
    """Return the stories in the order of the book, such as ``book/weighted-mean``."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    chapters = [chapter["file"] for part in parts if part.get("numbered") for chapter in part["chapters"]]
    return [page for page in chapters if not page.startswith("book/evidence/")]


def read(page: str) -> Story:
    """Measure one story."""
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    said = in_sentences(text)
    return Story(
        page=page,
        words=len(said.split()),
        numbers=len(NUMBERS.findall(said)),
        figures=len(DRAWN.findall(text)),
        tables=len(TABLE.findall(text)),
        cells=tuple(visible_cells(text)),
    )


def in_sentences(markdown: str) -> str:
    """Return what a reader reads as sentences: no code, no formulas, no exercises; links as their words.

    >>> in_sentences("It has $2$ keys, {number}`gates/g-a:.1f` of {ref}`ten heads <x>`.").split()
    ['It', 'has', 'keys,', '{number}`gates/g-a:.1f`', 'of', 'ten', 'heads', '.']
    """
    body = markdown.split("\n---\n", 1)[-1] if markdown.startswith("---\n") else markdown
    body = LINK.sub(r"\1 ", EXERCISES.sub("", body))
    kept = re.sub(r"\{number\}`([^`]*)`", r"<number>\1</number>", body)
    kept = re.sub(r"\{[\w:]+\}`[^`]*`", "", vocabulary.prose(kept))
    return re.sub(r"<number>(.*?)</number>", r"{number}`\1`", kept)


def visible_cells(text: str) -> Iterator[str]:
    """Yield the code that a reader of a page sees, cell by cell."""
    for cell in read_myst_markdown_notebook(text).cells if "{code-cell}" in text else ():
        if cell.cell_type == "code" and not HIDDEN & {*cell.metadata.get("tags", [])}:
            yield cell.source


def failures(cells: tuple[str, ...]) -> list[str]:
    """Execute each cell after the first alone, in an empty folder; return what failed, a line each."""
    if not cells:
        return []
    with tempfile.TemporaryDirectory() as folder:
        empty, there = Path(folder, "empty"), Path(folder, "installed")
        empty.mkdir()
        there.mkdir()
        (there / "analysis").symlink_to(ROOT / "analysis")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", RUN],
            input=json.dumps(cells),
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(there), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in done.stderr.splitlines() if line.startswith("cell ")]
    return lines or ([f"cell 1: {done.stderr.strip().splitlines()[-1]}"] if done.returncode else [])


def too_much(story: Story) -> list[str]:
    """Name what a story has too much of."""
    counts = {name: getattr(story, name) for name in ("words", "figures", "tables")} | {"cells": len(story.cells)}
    return [f"{count} {name}, at most {MOST[name]}" for name, count in counts.items() if count > MOST[name]]
