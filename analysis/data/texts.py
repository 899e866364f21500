"""Text to run models on, and text to train them on, without a network.

* :func:`passages`: 48 bundled passages of CPython's language reference, 30 to about 450 words.
* :func:`read`: a reader's own text files, cut into passages.
* :func:`corpus`: what every Python carries, the topics of ``pydoc_data`` and the docstrings of the standard
  library. Passages are taken from the topics that the training part of the corpus leaves out.

Tokenising belongs to the models.
"""

import ast
import hashlib
import json
import re
import sysconfig
from pathlib import Path

from analysis.core.files import LARGEST, check_regular

BUNDLED = Path(__file__).parents[1] / "bundled" / "texts" / "passages.jsonl"
HOLD_OUT = 4
"""Every fourth topic by name, from the first on, is held out."""
# absent from some distributions of Python, or no documentation
SKIPPED = {
    *("site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "turtledemo"),
    *("ensurepip", "tkinter", "distutils", "turtle.py", "pydoc_data"),
}


def passages(longest: int | None = None, count: int | None = None, source: str | Path | None = None) -> list[str]:
    """Return the bundled passages, or those of the reader's own files.

    Lengths are spread evenly on a logarithmic scale, and any first few passages have short and long ones among them.

    Parameters
    ----------
    longest
        Leave out passages of more words than this.
    count
        Return only so many.
    source
        A text file, or a folder of ``.txt`` files, to read instead; see :func:`read`. Of those texts ``count`` is the
        most that is returned.

    Raises
    ------
    ValueError
        If ``count`` is below 1, or fewer than ``count`` of the bundled passages are left, or none at all.

    Examples
    --------
    >>> len(passages())
    48
    >>> all(len(text.split()) <= 100 for text in passages(longest=100))
    True
    """
    if source is None:
        texts = [json.loads(line)["text"] for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
    else:
        texts = read(source)
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    short = [text for text in texts if longest is None or len(text.split()) <= longest]
    least = 1 if source is not None else max(1, count or 1)
    if len(short) < least:
        raise ValueError(
            f"{least} passages were wanted, but only {len(short)} of {len(texts)} in "
            f"{source or 'the bundle'} have at most "
            f"{'any number of' if longest is None else longest} words"
        )
    return short[:count]


def read(path: str | Path) -> list[str]:
    """Read passages from a UTF-8 text file, or from every ``.txt`` file of a folder in the order of their names.

    Passages are what blank lines separate; in a file without blank lines, each line is one.

    Raises
    ------
    FileNotFoundError
        If there is nothing at ``path``.
    ValueError
        If a folder holds no ``.txt`` file, or a file is empty or is not UTF-8 text. The message names the file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no text at {path}: give a .txt file, or a folder of them")
    files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"the folder {path} holds no .txt file")
    return [text for file in files for text in _blocks(file)]


def _blocks(file: Path) -> list[str]:
    try:
        check_regular(file, LARGEST)
        text = file.read_text(encoding="utf-8").strip()
    except (UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{file} cannot be read as UTF-8 text: {error}") from error
    if not text or "\0" in text:
        raise ValueError(f"{file} {'holds bytes that are not text' if text else 'is empty'}")
    parts = re.split(r"\n\s*\n", text)
    return [part.strip() for part in (parts if len(parts) > 1 else text.splitlines()) if part.strip()]


def digest(text: str) -> str:
    """Return the sha256 of the text's UTF-8 bytes, in hexadecimal.

    Examples
    --------
    >>> digest("abc")[:8]
    'ba7816bf'
    """
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def topics() -> dict[str, str]:
    """Return CPython's language reference as this interpreter carries it: topic to text, ordered by name."""
    from pydoc_data.topics import topics as reference

    return {name: reference[name] for name in sorted(reference)}


def docstrings(library: Path | None = None) -> list[str]:
    """Collect the docstrings of the standard library, file by file in the order of their paths, importing none.

    Parameters
    ----------
    library
        Another folder of Python files; this interpreter's standard library by default.
    """
    root = Path(library or sysconfig.get_path("stdlib"))
    files = [file for file in sorted(root.rglob("*.py")) if not SKIPPED & set(file.relative_to(root).parts)]
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    trees = (ast.parse(file.read_bytes()) for file in files)
    strings = (ast.get_docstring(node) for tree in trees for node in ast.walk(tree) if isinstance(node, kinds))
    return [text for text in strings if text]


def corpus(held_out: bool = False) -> str:
    """Return the training part of the text that every Python carries, or the part held out from it.

    Paragraphs of the topics, then of the docstrings, each kept only where it first occurs. What occurs in a held-out
    topic is in no other part, so that nothing held out was trained on. The text depends on the Python version: state
    :func:`digest` of it with whatever was made with it.
    """
    kept_out = held_out_topics()
    away = dict.fromkeys(paragraphs("\n\n".join(kept_out.values())))
    if held_out:
        return "\n\n".join(away)
    rest = [text for name, text in topics().items() if name not in kept_out] + docstrings()
    return "\n\n".join(dict.fromkeys(part for part in paragraphs("\n\n".join(rest)) if part not in away))


def held_out_topics() -> dict[str, str]:
    """Return the topics that no corpus for training has: every fourth by name."""
    names = list(topics())
    return {name: topics()[name] for name in names[::HOLD_OUT]}


def paragraphs(text: str) -> list[str]:
    """Return what blank lines separate."""
    return [part.rstrip() for part in re.split(r"\n[ \t]*\n", text.strip("\n")) if part.strip()]
