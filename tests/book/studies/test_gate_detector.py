"""The page on the gate detector: what is drawn into maps, what is tabulated, and figures that show all of it."""

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from book.studies.gate_detector import calibration, figures
from tests.book.studies.measurements import measurement


@pytest.mark.parametrize("kind", [*calibration.KINDS, *calibration.DRAWN])
def test_maps_of_every_kind_are_maps(kind):
    maps, truth = calibration.draw_maps(kind, 16, 3, np.random.default_rng(0))
    assert np.allclose(maps.sum(-1), 1)
    assert maps.min() >= 0
    assert truth.any((1, 2)).all() == (kind in calibration.DRAWN)
    assert ("causal" in kind) == (not np.triu(maps, 1).any())


def test_unkind_rows_are_what_they_are_called():
    rng = np.random.default_rng(1)
    drawn = {kind: calibration.draw_rows(kind, 64, 4, rng) for kind in calibration.UNKIND}
    assert len(np.unique(drawn["two values"])) == 2
    assert len(np.unique(drawn["seven values"])) == 7
    assert (drawn["three in ten larger"] > 3).mean() == pytest.approx(0.3, abs=0.02)
    spread = np.log(drawn["even and uneven in turn"]).std(-1)
    assert spread[:, 1::2].mean() > 1.5 * spread[:, ::2].mean()
    assert np.allclose(drawn["even and uneven in turn"][:, 1::2].mean(-1), 1)  # neither sort has larger weights
    tail = np.log(drawn["heavy tails"]).ravel()
    assert ((tail - tail.mean()) ** 4).mean() / tail.var() ** 2 > 4


def test_the_papers_point_has_its_row_but_for_the_noise():
    maps, truth = calibration.draw_maps("the paper's point, 10 % noise", 16, 5, np.random.default_rng(0))
    assert (maps[truth] >= 0.9).all()
    assert np.allclose(maps[:, 0].mean(), 1 / 16)
    assert (truth.sum((1, 2)) == 1).all()


def test_shuffled_orders_keep_the_scores_of_a_head():
    """Keys at other places take their columns along: what is directional stays, what is diagonal goes."""
    n, heads = 48, 2
    x = torch.eye(n, dtype=torch.float64)
    W_Q = 100 * torch.stack([torch.eye(n).roll(1, 0), torch.eye(n)[[5] * n]]).double()
    W_K = torch.eye(n, dtype=torch.float64).expand(heads, n, n)
    zeros = torch.zeros(heads, n, dtype=torch.float64)
    layer = AttentionLayer(
        W_Q=W_Q, W_K=W_K, W_V=W_K, W_O=W_K, b_Q=zeros, b_K=zeros, b_V=zeros, b_O=torch.zeros(n, dtype=torch.float64)
    )
    scores = calibration.read_orders(x, layer, torch.Generator().manual_seed(0))
    assert scores.shape == (len(calibration.ORDERS), heads, len(gates.GATES))
    diagonal = scores[:, 0, 1:4].sum(-1)
    assert diagonal[0] > 0.8
    assert diagonal[1:].max() < 0.1
    assert scores[:, 1, 0].min() > 0.8


def test_tables_hold_the_highest_rate_and_every_power():
    m = measurement("gate_detector")
    worst, found = m.calibration.worst(), m.calibration.found()
    assert set(worst.index) == set(calibration.KINDS)
    kind, gate = "two values", "instance"
    at = calibration.KINDS.index(kind), gates.PATTERNS.index(gate)
    assert worst.loc[kind, gate] == pytest.approx(100 * m.calibration.alarms[:, at[0], at[1]].max())
    assert found.shape == (len(calibration.DRAWN), len(calibration.SIZES))
    assert m.own.table().shape == (len(gates.PATTERNS), len(calibration.ORDERS))


def test_rates_are_drawn_with_their_numbers():
    table = pd.DataFrame([[1.2, 99.6], [0, 50]], ["kind", "unkind"], ["open", "cluster"])
    (panel,) = figures.rates(table, held=1, title="t", across="gate").axes
    assert [text.get_text() for text in panel.texts] == ["1", "100", "0", "50"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["kind", "unkind"]


def test_a_confusion_is_in_per_cent_of_its_rows():
    (panel,) = figures.confusion(np.array([[3, 1], [0, 2]]), ["a", "b"], ["c", "d"]).axes
    assert [text.get_text() for text in panel.texts] == ["75", "25", "0", "100"]


def test_reliability_shows_every_pattern_that_was_shuffled():
    figure = figures.reliability((16, 32), {"open": np.array([0.5, 1.0])}, np.full((2, 7), 0.01), gates.PATTERNS)
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["open"]
    assert [line.get_label() for line in right.lines] == list(gates.PATTERNS)
    assert np.allclose(right.lines[0].get_ydata(), 1)
