"""Counterfeit measurements: a measurement with its smallest change that should turn a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
Change = Any | Callable[[Any], Any]


def forge(measured: Any, changes: Mapping[str, Change]) -> Any:
    """Return a copy of a measurement with some fields changed.

    A key is a field's name, with dots into nested dataclasses, mappings and sequences; a value replaces the field, and
    a function is applied to it.
    """
    for path, change in changes.items():
        measured = _replaced(measured, path.split("."), change)
    return measured


def _replaced(value: Any, path: list[str], change: Change) -> Any:
    if not path:
        return change(value) if callable(change) else change
    if isinstance(value, Mapping):
        if path[0] not in value:
            raise KeyError(path[0])
        return {**value, path[0]: _replaced(value[path[0]], path[1:], change)}
    if isinstance(value, list | tuple) and path[0].isdigit():
        place = int(path[0])
        return put(place, _replaced(value[place], path[1:], change))(value)
    changed = {path[0]: _replaced(getattr(value, path[0]), path[1:], change)}
    return value._replace(**changed) if hasattr(value, "_replace") else replace(value, **changed)


def put(index: Any, value: Any) -> Callable[[Any], Any]:
    """Return a change that puts a value at an index of an array or a list, or in a field of a tuple."""

    def change(values: Any) -> Any:
        if isinstance(index, str):
            return _replaced(values, [index], value)
        if isinstance(values, list | tuple):
            return type(values)(value if place == index else each for place, each in enumerate(values))
        changed = np.array(np.asarray(values), float)
        changed[index] = value
        return changed

    return change


def on_either_side(measured: Any, path: str, index: Any, limit: Any, by: float = 0.01) -> list[Any]:
    """Return two copies of a measurement with one entry just below a limit and just above it.

    Parameters
    ----------
    measured
        The measurement.
    path, index
        A field, and the entry of it, as `put` takes it; the whole field where the index is ``None``.
    limit
        A number or an array, or a function of the measurement; a list of two has the values on either side.
    by
        How far the entry is from the limit, as a share of it.
    """
    limit = limit(measured) if callable(limit) else limit
    if isinstance(limit, list):
        values = limit
    else:
        step = by * abs(limit) if np.any(limit) else by
        values = [limit - step, limit + step]
    return [forge(measured, {path: value if index is None else put(index, value)}) for value in values]


def limits_of_study(name: str) -> Mapping[str, list[tuple]]:
    """Return the limits at which verdicts or findings turn: their id to arguments of `on_either_side`."""
    return getattr(import_module(f"tests.book.studies.{name}_counterfeits"), "LIMITS", {})


def of_study(name: str) -> Mapping[str, Mapping[str, Change]]:
    """Return the counterfeits of a study: claim id to changes of its measurement."""
    return import_module(f"tests.book.studies.{name}_counterfeits").COUNTERFEITS
