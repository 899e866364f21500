"""Execute one chapter with another model, device or texts, into a folder of its own; the book stays as it is."""

import os
import subprocess
import sys
from pathlib import Path

from analysis import asked, ledger
from analysis.core.files import make_writable
from analysis.data import texts
from analysis.models import checkpoints

BOOK = ledger.ROOT / "book"
_MODEL = ("models.chosen(", asked.MODEL)
# what reads the texts that an execution was asked for; a chapter with none of these would ignore them in silence
_TEXTS = ("texts.passages(", "asked.texts(", "pattern_readings.readings(", "entropy_shares(", "one_score.survey(")


def add_arguments(parser):
    """Take the chapter, what to execute it with, and where to write."""
    parser.add_argument("chapter", help="a chapter's name, or its first or last words: bert-gates or gates")
    parser.add_argument("--model", help="a name that `list` shows, a folder, or a hub id")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file, or a folder of .txt files")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (default: runs/CHAPTER)")
    parser.add_argument("--no-html", action="store_true", help="write the executed notebook only")


def run(arguments) -> int:
    """Refuse what cannot be before anything runs; then execute in a process of its own."""
    chapter = find(arguments.chapter)
    command = [sys.executable, str(BOOK / "_ext" / "single.py"), chapter.stem]
    if arguments.model:
        if not any(word in chapter.read_text(encoding="utf-8") for word in _MODEL):
            raise ValueError(f"the chapter {chapter.stem} computes with no model of its own, so --model has no effect")
        found = checkpoints.find(arguments.model)
        given = Path(arguments.model)
        name = str(given.resolve()) if found.source == "folder" and given.is_dir() else arguments.model
        command += ["--model", name]
    if arguments.texts:
        if not any(word in chapter.read_text(encoding="utf-8") for word in _TEXTS):
            raise ValueError(f"the chapter {chapter.stem} reads no passages of text, so --texts has no effect")
        texts.read(arguments.texts)
        command += ["--texts", str(arguments.texts.resolve())]
    if arguments.device:
        command += ["--device", arguments.device]
    out = arguments.out or Path("runs") / chapter.stem
    if BOOK.resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"--out {out} lies in the book itself: give a folder outside {BOOK}")
    make_writable(out)
    command += ["--out", str(out.resolve()), *(["--no-html"] if arguments.no_html else [])]
    return subprocess.run(command, check=False, env=dict(os.environ)).returncode


def find(name: str, folder: Path = BOOK) -> Path:
    """Find a chapter by its name, or by its first or last words; refuse what is no chapter or several."""
    known = sorted(p for p in folder.glob("*.md") if "```{code-cell}" in p.read_text(encoding="utf-8"))
    named = [p for p in known if p.stem == name] or [
        p for p in known if p.stem.endswith(f"-{name}") or p.stem.startswith(f"{name}-")]
    if len(named) != 1:
        raise LookupError(f"{'no chapter is' if not named else 'more than one chapter is'} called {name!r}; "
                          f"the chapters are {', '.join(p.stem for p in known) or f'not in {folder}'}")
    return named[0]
