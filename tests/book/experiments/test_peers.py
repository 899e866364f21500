"""The comparison with peers: two ways must agree, and every way that is measured stands in the record."""

import numpy as np
import pytest

from book.experiments import peers_packages as packages
from book.publish import experiments
from tests.benchmarks import peers_ways


def test_two_ways_differ_by_a_share_of_the_largest_number_or_are_refused(tmp_path):
    np.save(tmp_path / "spectra-ours.npy", [[4.0, 2.0], [1.0, 1.0]])
    np.save(tmp_path / "spectra-torch.npy", [[4.0, 2.0001]])  # a part of the input
    assert packages.agreement("spectra", "torch", tmp_path) == pytest.approx(0.0001 / 4)
    np.save(tmp_path / "spectra-torch.npy", [[4.0, 2.001]])
    with pytest.raises(AssertionError, match=r"torch differs from ours by 2\.5e-04"):
        packages.agreement("spectra", "torch", tmp_path)


def test_every_way_can_be_run_and_has_its_seconds_and_memory_in_the_record():
    values = experiments.load("peers-packages").values
    measured = [(task, way) for task, ways in packages.TASKS.items() for way in ways]
    assert {tuple(name.split("/")[:2]) for name in values if not name.startswith("version/")} == set(measured)
    for task, way in measured:
        assert {f"{task}/{way}/seconds", f"{task}/{way}/megabytes"} <= set(values)
        assert way in peers_ways.IMPORTS if task == "import" else callable(getattr(peers_ways, f"{task}_{way}"))
