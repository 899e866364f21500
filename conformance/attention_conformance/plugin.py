"""The pytest plugin: ``pytest --pyargs attention_conformance --conformance-adapter module:Class``."""

from pathlib import Path

import pytest

from attention_conformance.__main__ import load_adapter
from attention_conformance.cases import cases
from attention_conformance.comparison import QUANTITIES, compare, results_by_quantity, table, write_results

RESULTS = pytest.StashKey[list]()
ADAPTER = pytest.StashKey[object]()


def pytest_addoption(parser):
    """Add the options."""
    group = parser.getgroup("attention conformance")
    group.addoption("--conformance-adapter", metavar="MODULE:CLASS", help="the adapter of the library under test")
    group.addoption("--conformance-json", metavar="OUT", help="write one entry per quantity")
    group.addoption("--conformance-models", metavar="NAMES", default="", help="names, separated by commas; default all")


def pytest_configure(config):
    """Make the adapter once."""
    config.stash[RESULTS] = []
    if name := config.getoption("--conformance-adapter"):
        config.stash[ADAPTER] = load_adapter(name)


def pytest_generate_tests(metafunc):
    """Make a test per layer and quantity."""
    if {"conformance_case", "conformance_quantity"} <= set(metafunc.fixturenames):
        names = [name for name in metafunc.config.getoption("--conformance-models").split(",") if name]
        pairs = [(case, name) for case in cases(*names) for name in QUANTITIES if name in case.golden]
        ids = [f"{case}-{name}" for case, name in pairs]
        metafunc.parametrize(("conformance_case", "conformance_quantity"), pairs, ids=ids)


@pytest.fixture(scope="session")
def conformance_results(request):
    """Return what compares a layer: each is computed once."""
    found, config = {}, request.config
    if ADAPTER not in config.stash:
        pytest.skip("no --conformance-adapter is named")

    def results_of(case):
        if case not in found:
            found[case] = {one.quantity: one for one in compare(case, config.stash[ADAPTER])}
            config.stash[RESULTS].extend(found[case].values())
        return found[case]

    return results_of


def pytest_terminal_summary(terminalreporter, config):
    """Print the table, and write the file that was asked for."""
    results = config.stash[RESULTS]
    if not results:
        return
    adapter = config.stash[ADAPTER]
    terminalreporter.section(f"conformance of {adapter.library} {adapter.version}")
    terminalreporter.write_line(table(results))
    if out := config.getoption("--conformance-json"):
        write_results(Path(out), results_by_quantity(results, adapter))
