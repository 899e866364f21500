"""The measurement of a chapter, for the tests of its claims and findings."""

import pickle
from functools import cache
from importlib import import_module

from book.publish import execution


@cache
def measurement(name: str):
    """Take the measurement from the chapter's last execution where that is up to date, or measure now."""
    page = execution.chapter(name.replace("_", "-"), evidence=True)
    path = execution.measured_path(page)
    if not (path.exists() and execution.executed_cells(page)):
        measured = import_module(f"book.studies.{name}").measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(measured))
    return pickle.loads(path.read_bytes())
