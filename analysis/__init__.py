"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors and on models.

``from analysis import load, score_terms, attend`` and so on: ``__init__.pyi`` beside this file lists what there is, in
groups. A name is imported when it is first asked for, so ``import analysis`` needs neither torch, a network nor
``transformers``.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__version__ = "0.2.0"


@cache
def _face() -> dict[str, tuple[str, str]]:
    """Return for each name of the face the module that it comes from, and its name there."""
    import ast

    listed = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    imports = [node for node in listed if isinstance(node, ast.ImportFrom)]
    return {a.asname or a.name: (node.module or "", a.name) for node in imports for a in node.names}


def __getattr__(name: str) -> object:
    if name in _face():
        module, there = _face()[name]
        whole = f"{module}.{there}"
        found = getattr(import_module(module), there, None)
        value = import_module(whole) if found is None else found
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; dir({__name__}) lists what it has")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_face()})
