"""Attention, taken apart: the derivations and metrics behind the book, on plain tensors and on models.

``from analysis import load, score_terms, attend`` and so on: ``__init__.pyi`` lists some 70 names in groups, and the
packages ``analysis.transformer``, ``analysis.matrices``, ``analysis.maps`` and so on list the others. A name is
imported when it is first used, so ``import analysis`` needs neither torch, a network nor ``transformers``. To begin
with::

    load, find                        open a model, by name, by folder or in memory: its layers, module and tokenizer
    layer_inputs                      run a model and keep what a layer reads
    pretrained                        a whole model with options: task, device, random weights
    attend, compute_scores            what a layer computes
    score_terms, score_parts          a score in its parts, of a layer and of a model
    semi_bias, fold_norm              what a head prefers whatever the query is; the norm in the weights
    circuits, qk_matrix, ov_matrix    the matrices of a head
    induction_score                   what a head does on tokens that repeat; previous_token_score is its sibling
    read_gates, row_entropy           what a map of attention is made of, and how spread it is
    census, report                    every head of a model on texts: a table, a page
    make_controls                     the same model with random weights
    draw_maps, draw_scores            figures of matplotlib
"""

__version__ = "0.3.0"


def __getattr__(name: str) -> object:
    from importlib import import_module

    from analysis.core.public_names import all_names, suggest  # no torch

    if name == "__all__":  # for `from analysis import *`
        return [listed for listed in __dir__() if not listed.startswith("__")]
    places = all_names()
    place = places.get(name, f"{__name__}.{name}")
    module, _, attribute = place.rpartition(".")
    try:
        found = None if module == __name__ else getattr(import_module(module), attribute, None)
        value = found or import_module(place)  # a module where its package has no such attribute
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}.{name}":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{suggest(name, places)}") from None
        if (error.name or "").split(".")[0] == __name__:
            raise
        from analysis.core.libraries import name_missing_library

        raise ModuleNotFoundError(name_missing_library(error, "models"), name=error.name) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names whose libraries are installed: `help` reads every one."""
    from analysis.core.libraries import can_import
    from analysis.core.public_names import listed_names

    listed = {name for name, place in listed_names().items() if can_import(place)}
    return sorted({*listed, *(name for name in globals() if name.startswith("__"))})
