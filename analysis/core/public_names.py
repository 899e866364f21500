"""The public names, read as text: those of ``analysis`` from its stub, those of a package from its ``__init__.py``."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

STUB = Path(__file__).parents[1] / "__init__.pyi"
ELSEWHERE = {
    "build_induction_head": "analysis.transformer.induction.build",
    "copying": "analysis.transformer.induction_scores.copying_score",
    "key_bias_effect": "analysis.models.key_bias.key_bias_effect",
    "permute_entries": "analysis.models.controls.permute_entries",
    "prefix_matching": "analysis.transformer.induction_scores.induction_score",
    "scale_matrices": "analysis.models.controls.scale_matrices",
}
"""Names that ``from analysis import ...`` once listed, and that no package lists as such.

:meta hide-value:
"""


def read_groups(stub: Path = STUB) -> dict[str, dict[str, str]]:
    """Return the groups of a stub by title, each with its names and the dotted places that they are imported from.

    A group begins with a comment line, its title. A checkout without a stub offers nothing.

    Examples
    --------
    >>> groups = read_groups()
    >>> next(iter(groups)), groups["A score in its parts"]["semi_bias"]
    ('Read a model, or one layer of it', 'analysis.decomposition.terms.semi_bias')
    """
    text = stub.read_text(encoding="utf-8") if stub.exists() else ""
    titles = {n: line.removeprefix("# ") for n, line in enumerate(text.splitlines(), 1) if line.startswith("# ")}
    groups: dict[str, dict[str, str]] = {title: {} for title in titles.values()}
    for line, names in _imports(text):
        groups[titles[max(n for n in titles if n < line)]] |= names
    return groups


def listed_names() -> dict[str, str]:
    """Return the names that ``analysis`` lists, each with the dotted place that it is imported from."""
    return {name: place for names in read_groups().values() for name, place in names.items()}


def package_names(package: str) -> dict[str, str]:
    """Return the names that a package of ``analysis`` lists, with their places.

    >>> package_names("matrices")["stable_rank"]
    'analysis.matrices.rank.stable_rank'
    """
    text = STUB.with_name(package).joinpath("__init__.py").read_text(encoding="utf-8")
    return {name: place for _, names in _imports(text) for name, place in names.items()}


def all_names() -> dict[str, str]:
    """Return what ``from analysis import ...`` takes: the names that it lists and those of its packages."""
    packages = [path.parent.name for path in STUB.parent.glob("*/__init__.py")]
    return ELSEWHERE | {n: place for p in packages for n, place in package_names(p).items()} | listed_names()


def _imports(text: str) -> Iterable[tuple[int, dict[str, str]]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):  # `import x as x` makes a name public, for type checkers too
            yield node.lineno, {alias.asname: f"{node.module}.{alias.name}" for alias in node.names if alias.asname}


def suggest(guess: str, places: Mapping[str, str], most: int = 5) -> str:
    """Return a question that lists names like a guess: in its spelling, a word, or the module of that name.

    >>> suggest("ov_circuit", dict.fromkeys(["circuits", "ov_matrix", "attend"], ""))
    '; did you mean circuits, ov_matrix?'
    """
    from difflib import get_close_matches

    guess = guess.replace("plot_", "draw_").replace("compute_attention", "attend")
    names, own = sorted(places), _words_of(guess)
    near = get_close_matches(guess, names, 3)
    near += [name for name in names if f".{guess}." in places[name]]
    alike = [name for name in names if own & _words_of(name)]
    near += sorted(alike, key=lambda name: name.partition("_")[0] != guess.partition("_")[0])
    return f"; did you mean {', '.join(list(dict.fromkeys(near))[:most])}?" if near else ""


def _words_of(name: str) -> set[str]:
    return {word.rstrip("s") for word in name.lower().split("_") if word}
