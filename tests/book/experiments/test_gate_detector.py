"""What is drawn into maps to calibrate the gate detector, and that its experiments run on little."""

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from book.experiments import gate_detector


@pytest.mark.parametrize("kind", [*gate_detector.KINDS, *gate_detector.DRAWN])
def test_maps_of_every_kind_are_maps(kind):
    maps, truth = gate_detector.draw_maps(kind, 16, 3, np.random.default_rng(0))
    assert np.allclose(maps.sum(-1), 1)
    assert maps.min() >= 0
    assert truth.any((1, 2)).all() == (kind in gate_detector.DRAWN)
    assert ("causal" in kind) == (not np.triu(maps, 1).any())


def test_unkind_rows_are_what_they_are_called():
    rng = np.random.default_rng(1)
    drawn = {kind: gate_detector.draw_rows(kind, 64, 4, rng) for kind in gate_detector.UNKIND}
    assert len(np.unique(drawn["two values"])) == 2
    assert len(np.unique(drawn["seven values"])) == 7
    assert (drawn["three in ten larger"] > 3).mean() == pytest.approx(0.3, abs=0.02)
    spread = np.log(drawn["even and uneven in turn"]).std(-1)
    assert spread[:, 1::2].mean() > 1.5 * spread[:, ::2].mean()
    assert np.allclose(drawn["even and uneven in turn"][:, 1::2].mean(-1), 1)  # neither sort has larger weights
    tail = np.log(drawn["heavy tails"]).ravel()
    assert ((tail - tail.mean()) ** 4).mean() / tail.var() ** 2 > 4


def test_the_papers_point_has_its_row_but_for_the_noise():
    maps, truth = gate_detector.draw_maps("the paper's point, 10 % noise", 16, 5, np.random.default_rng(0))
    assert (maps[truth] >= 0.9).all()
    assert np.allclose(maps[:, 0].mean(), 1 / 16)
    assert (truth.sum((1, 2)) == 1).all()


def test_alarms_and_power_are_shares():
    found = gate_detector.measure_alarms((16,), 2, torch.device("cpu")).arrays
    assert found["alarms"].shape == (1, len(gate_detector.KINDS), len(gates.PATTERNS))
    assert found["power"].shape == (1, len(gate_detector.DRAWN))
    assert set(np.unique(found["alarms"])) <= {0, 0.5, 1}
    strong = list(gate_detector.DRAWN).index("diagonal, strong")
    assert found["power"][0, strong] == 1 == found["covered"][0, 1]


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
    scores = gate_detector.read_orders(x, layer, torch.Generator().manual_seed(0))
    assert scores.shape == (len(gate_detector.ORDERS), heads, len(gates.GATES))
    diagonal = scores[:, 0, 1:4].sum(-1)
    assert diagonal[0] > 0.8
    assert diagonal[1:].max() < 0.1
    assert scores[:, 1, 0].min() > 0.8


def test_specimens_are_counted():
    due = gate_detector.measure_specimens({16: 1}, (), ("ragged",), torch.device("cpu"))
    assert due.arrays["confusion"].sum(-1).tolist() == [[[1.0] * len(gate_detector.LABELS)]]
    mixed = {name.removeprefix("mixed_"): array for name, array in due.arrays.items()}
    assert mixed["maps"].tolist() == [[[4.0] * len(gates.PATTERNS)]]
    assert (mixed["found"] <= mixed["present"]).all()
    assert (mixed["false"] <= mixed["absent"]).all()
    assert not mixed["present"][..., 5:].any()
