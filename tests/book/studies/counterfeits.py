"""Counterfeit measurements: a measurement with its smallest change that should turn a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Change = Any | Callable[[Any], Any]


def forge(measured: Any, changes: Mapping[str, Change]) -> Any:
    """Return a copy of a measurement with some fields changed.

    A key is a field's name, with dots into nested dataclasses; a value replaces the field, and a function is applied
    to it.
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
    return replace(value, **{path[0]: _replaced(getattr(value, path[0]), path[1:], change)})


def of_study(name: str) -> Mapping[str, Mapping[str, Change]]:
    """Return the counterfeits of a study: claim id to changes of its measurement."""
    return import_module(f"tests.book.studies.{name}_counterfeits").COUNTERFEITS
