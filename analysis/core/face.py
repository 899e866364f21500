"""The face of the package, read from its stub: which names it offers, in groups, and where each comes from.

What belongs here: reading the list and the modules as text, without torch and without importing what they name. What
does not: the list (``analysis/__init__.pyi``), importing a name when it is asked for (``analysis/__init__.py``).
"""

import ast
import re
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


def words_of(name: str) -> set[str]:
    """Return the words of a name, in the singular."""
    return {word.rstrip("s") for word in name.lower().split("_") if word}


def find_places(guess: str, most: int = 3) -> list[str]:
    """Return modules, and functions and classes in them, whose name has every word of a guess; the shortest first.

    Examples
    --------
    >>> find_places("shapley_value")
    ['analysis.maps.shapley_values']
    """
    package, places = STUB.parent, []
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if any(part.startswith("_") for part in parts):
            continue
        module = ".".join(parts)
        defined = re.findall(r"^(?:def|class) ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        places += [module, *(f"{module}.{name}" for name in defined)]
    wanted = words_of(guess)
    found = [place for place in places if wanted and wanted <= words_of(place.rpartition(".")[2])]
    return sorted(found, key=lambda place: (len(words_of(place.rpartition(".")[2])), place.count("."), place))[:most]
