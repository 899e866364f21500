"""Execute one chapter with another model, device or texts, into a folder of its own; the book stays as it is."""

from pathlib import Path

from analysis.core.files import resolve_path
from analysis.data import texts
from analysis.models import checkpoints
from book.publish import execution
from book.publish import run as runs

OWN = ("book", "analysis", "tests", "tools", "_build", ".git", ".venv")
"""Folders of the checkout that no run writes into."""


def add_arguments(parser):
    """Take the chapter, what to execute it with, and where to write."""
    parser.add_argument("chapter", help="a page's name, or its first or last words: bert-similarity or similarity")
    parser.add_argument("--model", help="a name that `python -m analysis list` shows, a folder, or a hub id")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file, or a folder of .txt files")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (default: runs/CHAPTER)")
    parser.add_argument("--no-html", action="store_true", help="write the executed notebook only")


def run(arguments) -> int:
    """Refuse what cannot be before anything runs; then execute in a kernel of its own."""
    chapter = execution.chapter(arguments.chapter, evidence=True)  # what takes a model, a device, texts
    values = choose_values(arguments.model, arguments.texts, arguments.device)
    out = check_folder(arguments.out or Path("runs") / Path(chapter).name)
    folder = runs.run(chapter, out, values, html=not arguments.no_html)
    print(folder if arguments.no_html else f"Open {folder / 'html' / 'index.html'}")
    return 0


def choose_values(model: str | None, own_texts: Path | None, device: str | None) -> dict[str, str]:
    """Return what to set of a chapter's parameters; raise where a model is not found or texts cannot be read."""
    values = {}
    if model:
        checkpoint, path = checkpoints.find(model), Path(model)
        values["MODEL"] = str(resolve_path(path)) if checkpoint.source == "folder" and path.is_dir() else model
    if own_texts:
        texts.read(own_texts)
        values["TEXTS"] = str(resolve_path(own_texts))
    if device:
        values["DEVICE"] = device
    return values


def check_folder(out: Path) -> Path:
    """Return the folder to write to; refuse one in the book itself."""
    out = resolve_path(out)
    for own in (execution.ROOT / name for name in OWN):
        if out.is_relative_to(own):
            raise ValueError(f"--out {out} lies in the book itself: give a folder outside {own}")
    return out
