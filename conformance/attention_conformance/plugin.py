"""The pytest plugin: ``pytest --pyargs attention_conformance --conformance-adapter module:Class``."""

import importlib
import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from attention_conformance import QUANTITIES, TOLERANCE

RESULTS = pytest.StashKey[dict]()
ADAPTER = pytest.StashKey[object]()


def pytest_addoption(parser):
    """Add the options."""
    group = parser.getgroup("attention conformance")
    group.addoption("--conformance-adapter", metavar="MODULE:CLASS", help="the adapter of the library to try")
    group.addoption("--conformance-json", metavar="FILE", help="write the table there, beside what it holds already")


def pytest_configure(config):
    """Begin without results."""
    config.stash[RESULTS] = defaultdict(dict)


@pytest.fixture(scope="session")
def adapter(request):
    """Import the adapter and make one."""
    named = request.config.getoption("--conformance-adapter")
    if not named:
        pytest.skip("name an adapter: --conformance-adapter module:Class")
    module, _, name = named.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    request.config.stash[ADAPTER] = getattr(importlib.import_module(module), name)()
    return request.config.stash[ADAPTER]


@pytest.fixture(scope="session")
def conformance(request):
    """Where a test puts what it found: quantity, then case, to the error."""
    return request.config.stash[RESULTS]


def summary(library, results: dict) -> list[dict]:
    """Return a line a quantity: whether it is exact in every case that offers it, and by how much it is off."""
    lines = []
    for quantity in QUANTITIES:
        errors = results.get(quantity, {})
        off = {case: error for case, error in errors.items() if error > TOLERANCE[library.dtype]}
        said = [f"{len(off)} of {len(errors)} models" if off else f"{len(errors)} models"] if errors else []
        lines.append(
            {
                "library": library.library,
                "version": library.version,
                "quantity": quantity,
                "exact": bool(errors) and not off,
                "off": float(f"{max(errors.values()):.1e}") if errors else None,
                "not_offered": not errors,
                "note": "; ".join(
                    [*said, *([library.notes[quantity]] if errors and quantity in library.notes else [])]
                ),
            }
        )
    return lines


def pytest_terminal_summary(terminalreporter, config):
    """Print the table, and write it."""
    library = config.stash.get(ADAPTER, None)
    if library is None:
        return
    results = config.stash[RESULTS]
    lines = summary(library, results)
    terminalreporter.section(f"attention conformance of {library.library} {library.version}")
    for line in lines:
        said = "not offered" if line["not_offered"] else "exact" if line["exact"] else f"off by {line['off']:.1e}"
        terminalreporter.line(f"{line['quantity']:24} {said:16} {line['note']}")
        for case, error in sorted(results.get(line["quantity"], {}).items()):
            if error > TOLERANCE[library.dtype]:
                terminalreporter.line(f"{'':24}   {case}: {error:.1e}")
    if target := config.getoption("--conformance-json"):
        path = Path(target)
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        kept = [line for line in kept if line["library"] != library.library]
        path.write_text(json.dumps(kept + lines, indent=1) + "\n", encoding="utf-8")
