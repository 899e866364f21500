"""The public API, read from its stub: its names in groups, and the place that each comes from.

What belongs here: reading the list as text, without importing torch or what it names. What does not: the list
(``analysis/__init__.pyi``), importing a name when it is first used (``analysis/__init__.py``).
"""

import ast
from collections.abc import Iterable
from pathlib import Path

STUB = Path(__file__).parents[1] / "__init__.pyi"


def read_face(stub: Path = STUB) -> dict[str, dict[str, str]]:
    """Return the groups of a stub by title, each with its names and the dotted places that they are imported from.

    A group begins with a comment line, its title. A checkout without a stub offers nothing.

    Examples
    --------
    >>> groups = read_face()
    >>> next(iter(groups)), groups["A score in its parts"]["semi_bias"]
    ('Read a model, or one layer of it', 'analysis.decomposition.terms.semi_bias')
    """
    text = stub.read_text(encoding="utf-8") if stub.exists() else ""
    titles = {n: line.removeprefix("# ") for n, line in enumerate(text.splitlines(), 1) if line.startswith("# ")}
    groups: dict[str, dict[str, str]] = {title: {} for title in titles.values()}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            title = titles[max(n for n in titles if n < node.lineno)]
            groups[title] |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return groups


def suggest(guess: str, names: Iterable[str], most: int = 5) -> str:
    """Return a question that lists names spelled like a guess or sharing a word with it; nothing if there is none.

    Examples
    --------
    >>> suggest("ov_circuit", ["circuits", "ov_matrix", "attend"])
    '; did you mean circuits, ov_matrix?'
    """
    from difflib import get_close_matches

    names, own = sorted(names), _words_of(guess)
    near = [*get_close_matches(guess, names, 3), *(name for name in names if own & _words_of(name))]
    return f"; did you mean {', '.join(list(dict.fromkeys(near))[:most])}?" if near else ""


def _words_of(name: str) -> set[str]:
    return {word.rstrip("s") for word in name.lower().split("_") if word}
