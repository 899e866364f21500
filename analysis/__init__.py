"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors and on models.

``from analysis import load, score_terms, attend`` and so on: ``__init__.pyi`` lists the public API in groups. A name is
imported when it is first used, so ``import analysis`` needs neither torch, a network nor ``transformers``. To begin
with::

    load, find                        open a model, by name, by folder or in memory: its layers, module and tokenizer
    layer_inputs                      run a model and keep what a layer reads
    pretrained                        a whole model with options: task, device, random weights
    attend, compute_scores            what a layer computes
    score_terms, score_parts          a score in its parts, of a layer and of a model
    semi_bias, fold_norm              what a head prefers whatever the query is; the norm in the weights
    circuits, qk_matrix, ov_matrix    the matrices of a head
    read_gates, row_entropy           what a map of attention is made of, and how spread it is
    census, report                    every head of a model on texts: a table, a page
    make_controls                     the same model with random weights
    draw_maps, draw_scores            figures of matplotlib
"""

__version__ = "0.3.0"


def _face() -> dict[str, str]:
    from analysis.core.face import read_face  # no torch

    return {name: place for names in read_face().values() for name, place in names.items()}


def __getattr__(name: str) -> object:
    from importlib import import_module

    places = _face()
    if name == "__all__":  # for `from analysis import *`
        return [name for name in __dir__() if name in places]
    place = places.get(name, f"{__name__}.{name}")
    module, _, attribute = place.rpartition(".")
    try:
        value = (name in places and getattr(import_module(module), attribute, None)) or import_module(place)
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}.{name}":
            from analysis.core.face import suggest

            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{suggest(name, places)}") from None
        if (error.name or "").split(".")[0] == __name__:
            raise
        from analysis.core.libraries import name_missing_library

        raise ModuleNotFoundError(name_missing_library(error, "models"), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names whose libraries are installed: `help` reads every one."""
    from analysis.core.libraries import can_import

    listed = {name for name, place in _face().items() if can_import(place)}
    return sorted({*listed, *(name for name in globals() if name.startswith("__"))})
