"""What all benchmarks share: one thread, no type checker, and a way to print."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch, unchecked):
    """Run on one thread, and as a user does, without the type checker of the tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def say(capsys):
    """Print although pytest captures the output."""

    def printer(text):
        with capsys.disabled():
            print(f"\n{text}")

    return printer
