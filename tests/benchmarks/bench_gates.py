"""Time and memory of reading one attention map grow no faster than its cells do: 16 times the cells, from 256 to 1,024.

Memory is the added peak of a process of its own. The record of ``gate-detector-cost`` has more sizes.
"""

from functools import partial

from analysis.maps import gates
from book.experiments import gate_detector
from tests.benchmarks.machine import race

SMALL, LARGE, LARGEST = 256, 1024, 2048


def test_reading_a_map_is_linear_in_its_cells(say, at_most):
    found = race({n: partial(gates.read_gates, gate_detector.a_map(n)) for n in (SMALL, LARGE)})
    say(f"gates of a map of {LARGE:,} positions: {1e3 * found.least(LARGE):.0f} ms")
    at_most(f"gates: time per cell, {LARGE:,} / {SMALL} positions", found.ratio(LARGE, SMALL) / (LARGE / SMALL) ** 2)


def test_reading_a_map_takes_memory_for_few_maps():
    """A hundred maps of single precision are the most."""
    _, (megabytes,) = gate_detector.measure_reading((LARGEST,), repeats=1)
    assert megabytes < LARGEST**2 * 4 / 2**20 * 100
