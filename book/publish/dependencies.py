"""What a page's outputs depend on: the modules that its cells import, and what those import, read from the sources.

A change of a module out of reach leaves an executed page as it is. Files are read as text; nothing is imported here.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from analysis.core.face import read_face

PACKAGES = ("analysis", "book")
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXPERIMENT = re.compile(r"^EXPERIMENTS?\b", re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?\n---\n|(?::[^\n]*\n)*)", re.DOTALL)


def cell_sources(text: str) -> list[str]:
    """Return the code of each cell of a page in MyST, without its options and the blank lines around it.

    Examples
    --------
    >>> cell_sources("# Title\\n```{code-cell} ipython3\\n:tags: [x]\\n\\nprint(1)\\n```\\n")
    ['print(1)']
    """
    return [OPTIONS.sub("", cell, count=1).strip() for cell in CELL.findall(text)]


def page_code(text: str) -> str:
    """Return the code of all cells of a page in MyST, one after the other, without their options.

    Examples
    --------
    >>> page_code("# Title\\n```{code-cell} ipython3\\n:tags: [x]\\nprint(1)\\n```\\n")
    'print(1)\\n'
    """
    return "".join(OPTIONS.sub("", cell, count=1) for cell in CELL.findall(text))


def imported(code: str) -> set[str]:
    """Return the dotted names that code imports from the project, at any depth: modules, or names in modules.

    Examples
    --------
    >>> sorted(imported("from analysis.maps import gates\\nimport torch"))
    ['analysis.maps', 'analysis.maps.gates']
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] in PACKAGES}


@cache
def _imported_by(path: str, size: int, modified: int) -> frozenset[str]:
    return frozenset(imported(Path(path).read_text(encoding="utf-8")))


def imported_by(path: Path) -> frozenset[str]:
    """Return what a module imports from the project; an unchanged file is read once."""
    stat = path.stat()
    return _imported_by(str(path), stat.st_size, stat.st_mtime_ns)


def module_files(name: str, root: Path) -> Iterator[Path]:
    """Yield the files that importing a dotted name runs: the module, or the package, and the packages around it."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        path = os.path.join(root, *parts[:depth])
        yield from (Path(file) for file in (os.path.join(path, "__init__.py"), f"{path}.py") if os.path.isfile(file))


def face(root: Path) -> dict[str, str]:
    """Return the names that the library offers by itself, such as ``analysis.load``, each with where it comes from."""
    groups = read_face(root / "analysis" / "__init__.pyi").values()
    return {f"analysis.{name}": place for names in groups for name, place in names.items()}


def reachable(names: Iterable[str], root: Path) -> set[Path]:
    """Return the files of all modules that can be reached from the given names by imports."""
    todo, files, offered = set(names), set(), face(root)
    visited: set[str] = set()
    while todo:
        name = todo.pop()
        visited.add(name)
        todo |= {offered[name]} - visited if name in offered else set()
        for file in module_files(name, root):
            if file not in files:
                files.add(file)
                todo |= imported_by(file) - visited
    return files


def experiments(root: Path) -> dict[str, Path]:
    """Return the experiments by name with the modules of studies that define ``EXPERIMENT`` or ``EXPERIMENTS``.

    An experiment is named after its place: ``semi_bias/gpt2.py`` is ``semi-bias-gpt2``, and what lies in ``shared``
    goes by the module's name alone. Of several in one module, each goes by its key: ``EXPERIMENTS["phi"]`` of a module
    in ``rotary_bias`` is ``rotary-bias-phi``. A module of ``book/experiments`` is named after its file, such as
    ``bert-similarity-ladder``, and where it has several, by its file and the key.
    """
    paths = [*sorted((root / "book/studies").glob("*/*.py")), *sorted((root / "book/experiments").glob("*.py"))]
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    defining = {path: text for path, text in texts if EXPERIMENT.search(text)}
    return dict(sorted((name, path) for path, text in defining.items() for name in _experiment_names(path, text)))


def _experiment_names(path: Path, text: str) -> list[str]:
    stem = path.stem.replace("_", "-")
    several = [
        ast.literal_eval(key)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        if ast.unparse(node.targets[0]) == "EXPERIMENTS"
        for key in node.value.keys
        if key is not None
    ]
    if path.parent.name == "experiments":
        return [f"{stem}-{key}" for key in several] or [stem]
    study = "" if path.parent.name == "shared" else f"{path.parent.name}-".replace("_", "-")
    return [f"{study}{key}" for key in several or [stem]]


def dotted(path: Path, root: Path) -> str:
    """Return the dotted name of a module's file.

    Examples
    --------
    >>> dotted(Path("/checkout/analysis/maps/entropy.py"), Path("/checkout"))
    'analysis.maps.entropy'
    """
    return ".".join(path.relative_to(root).with_suffix("").parts)


def page_sources(page: Path, root: Path) -> set[Path]:
    """Return the sources that a page's outputs depend on, beside its own cells.

    Its modules, the templates, style sheets and data files beside them, the experiments whose names its cells or its
    studies write down, with what these import, and the records of those names.
    """
    code = page_code(page.read_text(encoding="utf-8"))
    names, known, studies = imported(code), experiments(root), root / "book" / "studies"
    while True:
        files = reachable(names, root)
        texts = [code, *(file.read_text(encoding="utf-8") for file in files if studies in file.parents)]
        named = {dotted(path, root) for name, path in known.items() if _writes_down(texts, name)}
        if named <= names:
            break
        names |= named
    for record in (root / "book" / "records").glob("*.json"):
        if _writes_down(texts, record.stem):
            files |= {path for path in (record, record.with_suffix(".npz")) if path.exists()}
    for folder in {file.parent for file in files}:
        files |= {file for file in folder.glob("*") if file.suffix in (".mplstyle", ".html", ".yml")}
    return files


def _writes_down(texts: list[str], name: str) -> bool:
    return any(f'"{name}"' in text for text in texts)
