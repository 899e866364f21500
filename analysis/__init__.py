"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors and on models.

``from analysis import load, score_terms, attend`` and so on: ``__init__.pyi`` beside this file lists what there is, in
groups. A name is imported when it is first asked for, so ``import analysis`` needs neither torch, a network nor
``transformers``. To begin with::

    load, find, layer_inputs          read a model; run it and keep what a layer reads
    pretrained                        whole models and their tokenizers: pretrained.load, pretrained.tokenizer
    attend, compute_scores            what a layer computes
    score_terms, score_parts          a score in its parts, of a layer and of a model
    semi_bias, fold_norm              what a head prefers whatever the query is; the norm in the weights
    circuits, qk_matrix, ov_matrix    the matrices of a head
    read_gates, row_entropy           what a map of attention is made of, and how spread it is
    census, report                    every head of a model on texts: a table, a page
    make_controls                     the same model with random weights
    draw_maps, draw_scores            figures of matplotlib
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from sys import _getframe

__version__ = "0.3.0"


@cache
def _face() -> dict[str, str]:
    """Return for each name of the face the dotted place that it comes from."""
    from analysis.core.face import read_face  # no torch

    return {name: place for names in read_face().values() for name, place in names.items()}


def _near(name: str, most: int = 5) -> str:
    """Say which names of the face look like one that was guessed or share a word with it, and where it may stand."""
    from difflib import get_close_matches

    from analysis.core.face import find_places, words_of

    sharing = [other for other in sorted(_face()) if words_of(name) & words_of(other)]
    near = list(dict.fromkeys([*get_close_matches(name, _face(), 3), *sharing]))[:most]
    places = [place for place in find_places(name) if place not in _face().values()]
    said = (("near it", near), ("it may be", places))
    return "".join(f"{word}: {', '.join(names)}; " for word, names in said if names)


def _import(module: str) -> object:
    """Import a module of the package; where a library is missing, say what installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == __name__:
            raise
        from analysis.core.libraries import name_missing_library

        raise ModuleNotFoundError(name_missing_library(error, "models"), name=error.name) from error


def __getattr__(name: str) -> object:
    if name == "__all__":  # what `from analysis import *` asks for
        return [name for name in __dir__() if name in _face()]
    if name in _face():
        place = _face()[name]
        module, _, there = place.rpartition(".")
        found = getattr(_import(module), there, None)
        value = _import(place) if found is None else found
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        value = _import(f"{__name__}.{name}")
    else:
        near = "" if name.startswith("_") else _near(name)
        told = f"module {__name__!r} has no attribute {name!r}; {near}dir({__name__}) lists what it has"
        # `from analysis import ...` would put a message of its own, without what is near, in the place of this one.
        raise (ImportError if _getframe(1).f_code.co_name == "_handle_fromlist" else AttributeError)(told)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what can be had here: `help` reads every name, and one whose library is missing would end it."""
    from analysis.core.libraries import can_import

    return sorted({*globals(), *(name for name, place in _face().items() if can_import(place))})
