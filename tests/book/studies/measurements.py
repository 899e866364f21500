"""The measurement of a chapter, for the tests of its claims and findings."""

import os
import pickle
from functools import cache
from importlib import import_module

import execution


@cache
def measurement(name: str):
    """Take the measurement from the chapter's last execution, or measure now."""
    path = execution.executed_path() / f"{name.replace('_', '-')}.measured"
    if not path.exists():
        os.environ.setdefault("ANALYSIS_DEVICE", "cpu")
        measured = import_module(f"book.studies.{name}").measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(measured))
    return pickle.loads(path.read_bytes())
