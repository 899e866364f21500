"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors and on models.

``from analysis import load, score_terms, attend`` and so on: ``__init__.pyi`` beside this file lists what there is, in
groups. A name is imported when it is first asked for, so ``import analysis`` needs neither torch, a network nor
``transformers``.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec

__version__ = "0.2.0"


@cache
def _face() -> dict[str, str]:
    """Return for each name of the face the dotted place that it comes from."""
    from analysis.core.face import read_face  # no torch

    return {name: place for names in read_face().values() for name, place in names.items()}


def _near(name: str, most: int = 5) -> list[str]:
    """Return names of the face that look like one that was guessed, or share a word with it."""
    from difflib import get_close_matches

    def words(of: str) -> set[str]:
        return {word.rstrip("s") for word in of.lower().split("_")}

    sharing = [other for other in sorted(_face()) if words(name) & words(other)]
    return list(dict.fromkeys([*get_close_matches(name, _face(), 3), *sharing]))[:most]


def __getattr__(name: str) -> object:
    if name == "__all__":  # what `from analysis import *` asks for
        return sorted(_face())
    if name in _face():
        place = _face()[name]
        module, _, there = place.rpartition(".")
        found = getattr(import_module(module), there, None)
        value = import_module(place) if found is None else found
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = import_module(f"{__name__}.{name}")
    else:
        near = "" if name.startswith("_") else "".join(f"{other}, " for other in _near(name))
        near = f"near it: {near.removesuffix(', ')}; " if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {near}dir({__name__}) lists what it has")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_face()})
