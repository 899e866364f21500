"""Specimens of gates: lines are as long as is said, and specimens of several sizes are read."""

import numpy as np
import pytest

from analysis.maps import gates
from analysis.maps.gates.synthetic import Specimen, draw, place, read_specimens

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
    columns = [Specimen(gates.directional(n, 4).numpy(), truth[0]) for n in (12, 9)]
    made = [*columns, Specimen(np.eye(12), truth[1])]
    found = list(read_specimens(made))
    assert len(found) == 3
    names = {(len(specimen.attention), int(specimen.truth.argmax())): name for specimen, _, name in found}
    assert names == {(9, 0): "directional", (12, 0): "directional", (12, 1): "open"}
    for specimen, scores, _ in found:
        assert scores[int(specimen.truth.argmax())] > 0.9


@pytest.mark.parametrize("causal", [False, True])
def test_the_truth_of_a_specimen_is_what_lies_over_its_noise(causal):
    made = [draw(20, ["open"], "flat", np.random.default_rng(seed), causal=causal) for seed in range(400)]
    strengths = []
    for specimen in made:
        attention, truth = specimen.attention, specimen.truth
        np.testing.assert_allclose(attention.sum(1), 1)
        assert truth.sum() == pytest.approx(1)
        assert not causal or not np.triu(attention, 1).any()
        assert truth[gates.GATES.index("open")] + truth[gates.GATES.index("closed")] == pytest.approx(1)
        if (np.diag(attention) > 0.12).all():  # the whole diagonal, over noise of about a twentieth
            strengths.append(truth[gates.GATES.index("open")])
            share = np.diag(attention)[int(causal) :]
            level = (1 - share) / (np.arange(20)[int(causal) :] if causal else 19)  # of the other keys it sees
            assert np.mean(share - level) == pytest.approx(strengths[-1], abs=0.05)
    assert len(strengths) > 200
    assert np.mean(strengths) == pytest.approx(0.6, abs=0.03)  # 0.3 to 0.9
    assert 0.25 < min(strengths) < 0.35
    assert 0.8 < max(strengths) < 0.95
