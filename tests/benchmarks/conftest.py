"""What all benchmarks share: one thread, no type checker, a way to print, and the promises."""

from contextlib import nullcontext

import pytest
import torch

from tests.benchmarks.machine import busy_process
from tests.benchmarks.promises import Promises

FOUND = pytest.StashKey[dict]()
BESIDE = {"as it is": nullcontext, "beside a busy process": busy_process}


def pytest_addoption(parser):
    parser.addoption(
        "--times",
        type=int,
        default=0,
        metavar="N",
        help="measure each ratio N times as the machine is and N times beside one busy process; write promises.json",
    )


def _times(config):
    return config.getoption("--times", 0)


def pytest_generate_tests(metafunc):
    """Repeat what measures a ratio."""
    if (times := _times(metafunc.config)) and "promises" in metafunc.fixturenames:
        values = [name for name in BESIDE for _ in range(times)]
        metafunc.parametrize("beside", values, indirect=True, ids=[f"{name} {i}" for i, name in enumerate(values)])


def pytest_collection_modifyitems(config, items):
    """Leave out what measures no ratio, where ratios are to be promised anew."""
    if _times(config):
        items[:] = [item for item in items if "promises" in item.fixturenames]


def pytest_terminal_summary(terminalreporter, config):
    if times := _times(config):
        terminalreporter.section(f"each ratio {times} times as the machine is, {times} times beside one busy process")
        for line in Promises(found=config.stash.get(FOUND, {})).write(len(BESIDE) * times):
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch, unchecked):
    """Run on one thread, and as a user does, without the type checker of the tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def beside(request):
    """Run a busy process beside the test, where its turn says so."""
    with BESIDE[getattr(request, "param", "as it is")]():
        yield


@pytest.fixture
def say(capsys):
    """Print although pytest captures the output."""

    def printer(text):
        with capsys.disabled():
            print(f"\n{text}", end="")

    return printer


@pytest.fixture
def promises(request, say, beside):
    """Hold each ratio to its promise, or collect it."""
    found = request.config.stash.setdefault(FOUND, {})
    return Promises(collecting=bool(_times(request.config)), say=say, found=found)
