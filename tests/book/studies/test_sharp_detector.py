"""What the maps of the detector's calibration are made of, cell by cell, from random numbers that are handed in."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.gate_detector import calibration, cost

N = 64
EVEN = 1 / N


class Drawn:
    """A generator whose every draw is a given number, or a given array."""

    def __init__(self, **given):
        self.given, self.asked = given, []

    def _draw(self, name, shape, *settings):
        self.asked.append((name, *settings))
        return np.full(shape, 1.0) * self.given[name]

    def standard_normal(self, shape):
        return self._draw("normal", shape)

    def random(self, shape):
        return self._draw("random", shape)

    def standard_t(self, freedom, shape):
        return self._draw("student", shape, freedom)

    def uniform(self, low, high, shape):
        assert shape[-1] == 1
        return self._draw("uniform", shape, low, high)

    def dirichlet(self, alpha, size):
        return self._draw("dirichlet", (*size, len(alpha)), float(alpha.max()), float(alpha.min()))

    def permuted(self, array, axis):
        return np.flip(array, axis)


def maps_of(monkeypatch, kind, **given):
    """Draw two maps of a kind over rows that are even before they are made rows of a map."""
    asked = []
    monkeypatch.setattr(calibration, "draw_rows", lambda *how: asked.append(how[:3]) or np.full((2, N, N), 3.0))
    maps, truth = calibration.draw_maps(kind, N, 2, Drawn(**given))
    assert maps.shape == truth.shape == (2, N, N)
    np.testing.assert_allclose(maps[0], maps[1])
    assert (truth[0] == truth[1]).all()
    return maps[0], truth[0], asked[0]


def cells(truth):
    """Return rows and keys of the cells of a gate."""
    rows, keys = np.nonzero(truth)
    return sorted(set(rows.tolist())), sorted(set(keys.tolist())), len(rows)


def test_a_weak_column_has_fifteen_hundredths_of_each_row(monkeypatch):
    maps, truth, _ = maps_of(monkeypatch, "column, weak")
    assert cells(truth) == (list(range(N)), [21], N)
    assert maps[truth] == pytest.approx([0.15 + 0.85 * EVEN] * N)
    assert maps[~truth] == pytest.approx([0.85 * EVEN] * N * (N - 1))


@pytest.mark.parametrize(("kind", "share"), [("diagonal, weak", 0.15), ("diagonal, strong", 0.6)])
def test_a_diagonal_lies_two_places_back_and_spares_the_first_two_rows(monkeypatch, kind, share):
    maps, truth, _ = maps_of(monkeypatch, kind)
    assert np.argwhere(truth).tolist() == [[row, row - 2] for row in range(2, N)]
    assert maps[truth] == pytest.approx([share + (1 - share) * EVEN] * (N - 2))
    assert maps[:2] == pytest.approx(np.full((2, N), EVEN))
    assert maps[5, 6] == pytest.approx((1 - share) * EVEN)


def test_cells_of_a_block_are_eight_times_as_large(monkeypatch):
    maps, truth, _ = maps_of(monkeypatch, "block")
    assert cells(truth) == (list(range(32, 48)), list(range(8, 24)), 256)
    assert maps[truth] == pytest.approx([8 / (48 + 128)] * 256)
    assert maps[40, 40] == pytest.approx(1 / 176)
    assert maps[3, 10] == pytest.approx(EVEN)
    maps, truth, _ = maps_of(monkeypatch, "block, causal")
    assert cells(truth) == (list(range(32, 48)), list(range(8, 24)), 256)
    assert maps[32, [7, 8, 23, 24, 32, 33]] == pytest.approx(np.array([1, 8, 8, 1, 1, 0]) / (17 + 128))
    assert maps[3, :5].tolist() == pytest.approx([0.25] * 4 + [0])


def test_points_have_nine_tenths_of_their_row_and_four_of_a_row_two_tenths_each(monkeypatch):
    maps, truth, asked = maps_of(monkeypatch, "points, uneven")
    assert asked == ("uneven", N, 2)
    assert np.argwhere(truth).tolist() == [[row, 21] for row in (0, 16, 32, 48)]
    assert maps[16, [21, 22]] == pytest.approx([0.9 + 0.1 * EVEN, 0.1 * EVEN])
    assert maps[9] == pytest.approx(np.full(N, EVEN))
    maps, truth, asked = maps_of(monkeypatch, "rows of points, uneven")
    assert asked == ("uneven", N, 2)
    assert np.argwhere(truth).tolist() == [[row, key] for row in (0, 16, 32, 48) for key in (1, 21, 32, 62)]
    assert maps[48, [1, 21, 32, 62, 63]] == pytest.approx([0.2 + 0.2 * EVEN] * 4 + [0.2 * EVEN])


def test_the_papers_point_is_mixed_with_rows_of_noise(monkeypatch):
    noise = np.eye(N)[7]  # a row of noise that is all on key 7
    for kind, share in (("the paper's point, 1 % noise", 0.01), ("the paper's point, 10 % noise", 0.1)):
        maps, truth, _ = maps_of(monkeypatch, kind, dirichlet=noise)
        assert np.argwhere(truth).tolist() == [[32, 21]]
        assert maps[32, [21, 7, 8]] == pytest.approx([1 - share, share, 0])
        assert maps[4, [7, 8]] == pytest.approx([(1 - share) * EVEN + share, (1 - share) * EVEN])


def test_a_band_falls_by_half_its_width_and_causal_rows_see_no_later_key(monkeypatch):
    maps, truth, asked = maps_of(monkeypatch, "band")
    assert asked[0] == "band"
    assert maps[12, [12, 16, 8]] / maps[12, 12] == pytest.approx([1, math.exp(-1), math.exp(-1)])  # n / 16 = 4
    assert maps.sum(1) == pytest.approx(np.ones(N))
    assert not truth.any()
    maps, truth, asked = maps_of(monkeypatch, "causal, uneven")
    assert asked[0] == "uneven"
    assert maps[3].tolist() == pytest.approx([0.25] * 4 + [0] * (N - 4))
    assert not truth.any()
    maps, truth, _ = maps_of(monkeypatch, "two values")
    assert maps == pytest.approx(np.full((N, N), EVEN))
    assert not truth.any()


def rows_of(noise, n=10, count=2, **given):
    generator = Drawn(**given)
    rows = calibration.draw_rows(noise, n, count, generator)
    assert rows.shape == (count, n, n)
    return rows, generator.asked


LOTS = np.linspace(0, 0.9, 10)
"""Ten random numbers of a row, from 0 to 0.9."""


def test_rows_of_every_sort_are_made_of_their_random_numbers():
    assert rows_of("even", normal=2)[0] == pytest.approx(np.full((2, 10, 10), math.e))
    assert rows_of("band", normal=2)[0].max() == pytest.approx(math.e)  # a sort without a noise of its own
    low_rank, asked = rows_of("sharp low rank", normal=0.5)
    assert np.log(low_rank[0, 0]) == pytest.approx([2 * 8 * 0.25 / 8**0.5] * 10)
    assert len(asked) == 2
    uneven, asked = rows_of("very uneven", dirichlet=np.eye(10)[3])
    assert uneven[1, 4, 3] == 1
    assert uneven.min() == 1e-25
    assert asked == [("dirichlet", 0.1, 0.1)]
    spiky, _ = rows_of("spiky", normal=2, random=LOTS)
    assert spiky[1, 5] / math.e == pytest.approx([40] * 4 + [1] * 6)  # 4 of 10 cells
    several, asked = rows_of("rows of different evenness", uniform=0.7, normal=3)
    assert np.log(several[0, 0]) == pytest.approx([2.1] * 10)
    assert asked[0] == ("uniform", 0.2, 3)
    larger, _ = rows_of("three in ten larger", normal=2, random=LOTS)
    assert larger[0, 0] / math.exp(0.6) == pytest.approx([8] * 3 + [1] * 7)
    tails, asked = rows_of("heavy tails", student=np.array([-100, -39, 0, 1, 39, 100, 0, 0, 0, 0]))
    assert np.log(tails[0, 0, :6]) == pytest.approx([-40, -39, 0, 1, 39, 40])
    assert asked == [("student", 5)]
    seven, _ = rows_of("seven values", normal=np.array([-9, -2.6, -1.4, -0.4, 0.4, 0.6, 1.6, 2.6, 9, 0]))
    assert np.log(seven[0, 0]) == pytest.approx([-3, -3, -1, 0, 0, 1, 2, 3, 3, 0])
    two, _ = rows_of("two values", random=LOTS)
    assert two[0, 0].tolist() == [2] * 3 + [1] * 7


def test_uneven_rows_are_shuffled_and_in_turn_with_even_ones(monkeypatch):
    asked = []
    patchy = np.tile(np.arange(10.0), (10, 1))
    monkeypatch.setattr(calibration, "draw_noise", lambda kind, n, rng: asked.append((kind, n)) or patchy)
    rows, _ = rows_of("uneven")
    assert rows[1, 3].tolist() == list(range(9, -1, -1))  # shuffled within a row: here reversed
    assert asked == [("patchy", 10)] * 2
    rows, _ = rows_of("even and uneven in turn", normal=2)
    assert rows[0, 0] == pytest.approx([math.e] * 10)
    assert rows[0, 1].tolist() == list(range(90, -1, -10))
    assert rows[1, 2] == pytest.approx([math.e] * 10)


@pytest.mark.parametrize(("kind", "causal"), [("block, causal", True), ("block", False)])
def test_a_kind_is_drawn_from_its_own_seed_and_read(monkeypatch, kind, causal):
    monkeypatch.setattr(calibration, "COUNT", 3)
    drawn = lambda kind, n, count, rng: (rng.random((count, n, n)), (kind, n))  # noqa: E731
    monkeypatch.setattr(calibration, "draw_maps", drawn)
    monkeypatch.setattr(calibration.gates, "read_gates", lambda maps, *, causal: (maps.shape, causal))
    maps, reading, truth = calibration.read_kind(kind, 4, 101, torch.device("cpu"))
    assert maps.tolist() == np.random.default_rng([2027, 4, 101]).random((3, 4, 4)).tolist()
    assert (reading, truth) == (((3, 4, 4), causal), (kind, 4))


def test_the_map_that_is_timed_has_three_gates(monkeypatch):
    asked = []

    def draw(n, present, noise, rng):
        asked.append((n, present, noise))
        return SimpleNamespace(attention=rng.random((2, n)))

    monkeypatch.setattr(cost, "draw", draw)
    found = cost.a_map(5)
    assert asked == [(5, ("directional", "backward", "cluster"), "lognormal")]
    assert found.dtype == torch.float32
    assert found.numpy() == pytest.approx(np.random.default_rng([0, 5]).random((2, 5)), rel=1e-6)
