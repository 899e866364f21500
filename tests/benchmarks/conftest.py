"""What all benchmarks share: one thread, no type checker, a way to print, and what is promised.

A benchmark promises what a user relies on, whatever the machine: half of the ratio that is typical of the slowest
machine seen, and never less than the alternative (of a cost, twice the typical). It prints both.
"""

import pytest
import torch

TYPICAL = {  # of the slowest machine seen
    "1/sigma of all pairs: position by position / ours": 92.6,
    "gates: time per cell, 1,024 / 256 positions": 1.11,
    "import: the mathematics / torch alone": 1.02,
    "lilliefors: statsmodels loop / ours": 37.7,
    "lilliefors: the formula in float64 / ours": 3.0,
    "one layer out of a file: the model by transformers / ours": 6.16,
    "semi-bias of 1,024 tokens: all keys first / ours": 9.75,
    "semi-bias of 50,257 tokens: all keys first / ours": 16.1,
    "semi-bias of 50,257 tokens: ours / the machine's limit": 4.98,
    "spectra of 144 heads: QR / Gram matrices": 2.15,
    "spectra of 144 heads: TransformerLens' way, float32 / Gram matrices": 6.13,
    "spectra of 144 heads: TransformerLens' way, float64 / Gram matrices": 7.5,
    "spectra of 144 heads: dense SVD / Gram matrices": 132.0,
    "streaming statistics: forward pass with / without": 1.08,
    "streaming statistics: naive over stored maps / added by streaming": 54.7,
    "streaming statistics: vectorised over stored maps / added by streaming": 3.54,
}


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
            print(f"\n{text}", end="")

    return printer


@pytest.fixture
def at_least(say):
    """Hold a ratio that should be large: how many times as long the other way takes."""

    def hold(name, ratio):
        limit = max(1, TYPICAL[name] / 2)
        say(f"  {name}: {ratio:.3g}; promised at least {limit:.3g}, typical {TYPICAL[name]:.3g}")
        assert ratio >= limit, name

    return hold


@pytest.fixture
def at_most(say):
    """Hold a ratio that should be small: how many times as long this takes as what it stands beside."""

    def hold(name, ratio):
        limit = 2 * TYPICAL[name]
        say(f"  {name}: {ratio:.3g}; promised at most {limit:.3g}, typical {TYPICAL[name]:.3g}")
        assert ratio <= limit, name

    return hold
