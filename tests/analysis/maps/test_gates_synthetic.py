"""Specimens of gates: lines are as long as is said, and specimens of several sizes are read."""

import numpy as np
import pytest

from analysis.maps import gates
from analysis.maps.gates.synthetic import Specimen, place, read_specimens

N = 30


@pytest.mark.parametrize("gate", ["directional", "open", "backward", "forward"])
def test_a_line_runs_over_a_third_of_the_map_at_least(gate):
    lengths = []
    for seed in range(300):
        shape = place(gate, N, np.random.default_rng(seed))
        rows = np.flatnonzero(shape.any(1))
        assert (np.diff(rows) == 1).all()
        assert shape.sum(1)[rows] == pytest.approx(1.0)
        lengths.append(len(rows))
    outside = 3 if gate in ("backward", "forward") else 0  # offsets of 1 and 2 leave the map at its end
    assert N // 3 - outside <= min(lengths) < N // 2
    assert max(lengths) == (N if not outside else N - 1)


def test_specimens_of_several_sizes_are_read_with_their_own_kind():
    truth = np.eye(9)
    made = [
        Specimen(gates.directional(12, 4).numpy(), truth[0]),
        Specimen(gates.directional(9, 4).numpy(), truth[0]),
        Specimen(np.eye(12), truth[1]),
    ]
    found = list(read_specimens(made))
    assert len(found) == 3
    names = {(len(specimen.attention), int(specimen.truth.argmax())): name for specimen, _, name in found}
    assert names == {(9, 0): "directional", (12, 0): "directional", (12, 1): "open"}
    for specimen, scores, _ in found:
        assert scores[int(specimen.truth.argmax())] > 0.9
