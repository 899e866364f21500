"""Measurements on inputs whose answer is known by hand: a record of round numbers, a head of one channel."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from book.studies.bert_gates import controls, sink
from book.studies.bert_normality.measure import _phrase_rows
from book.studies.semi_bias import gpt2, training
from book.studies.semi_bias.experiments import SEEDS
from book.studies.semi_bias.locality import MEASURES
from tests.book.studies.known import hand_over


def test_random_query_biases_of_one_channel_are_all_as_monotone_as_the_head_and_half_normal_in_size():
    one, none = torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    layer = AttentionLayer(one, 2 * one, one, one, none + 3, none, none, none[0])
    places = torch.arange(8, dtype=torch.float64)[:, None]
    found = gpt2._null(places, layer)
    assert found["rho"].tolist() == [1.0]
    assert found["null_quantiles"].flatten().tolist() == [1.0, 1.0, 1.0]
    assert found["null_share"].tolist() == [1.0]
    # the drawn biases are normal with the length of the head's own, and the median of |N(0, 1)| is 0.6745
    assert found["spread_ratio"].item() == pytest.approx(1 / 0.6745, rel=0.1)


@pytest.mark.parametrize("sign", [1, -1], ids=["climbs", "falls"])
def test_the_null_of_positions_that_turn_is_less_monotone_than_a_head_that(sign):
    g = torch.Generator().manual_seed(0)
    W_K = torch.eye(6, dtype=torch.float64)[None]
    none = torch.zeros(1, 6, dtype=torch.float64)
    layer = AttentionLayer(W_K, W_K, W_K, W_K, sign * torch.eye(6, dtype=torch.float64)[:1], none, none, none[0])
    places = torch.randn(40, 6, generator=g, dtype=torch.float64)
    places[:, 0] = torch.arange(40)
    found = gpt2._null(places - places.mean(0), layer)
    assert found["rho"].item() == sign
    assert found["null_share"].item() < 0.05
    assert found["null_quantiles"][0].item() < found["null_quantiles"][1].item() < found["null_quantiles"][2].item() < 1


def test_effects_of_taking_weights_away_are_means_over_documents(monkeypatch):
    ways, names = len(sink.WAYS), len(gates.GATES)
    effect = np.zeros((3, names, 2))
    effect[:, :, 0] = [[0.3], [0.5], [0.7]]
    effect[:, :, 1] = [[0.1], [0.1], [0.4]]
    hand_over(
        monkeypatch,
        sink,
        sink=np.arange(3.0)[:, None] + np.arange(ways),
        **{"sink share": np.full((3, ways), 0.25), "effect": effect, "share": np.full((3, names, 2), 0.5)},
    )
    found = sink.measure_removal(None)
    assert [found.sink[way].value for way in sink.WAYS] == [1.0 + k for k in range(ways)]
    assert set(found.sink_shares.values()) == {0.25}
    for gate in gates.GATES:
        assert found.named[gate].value == pytest.approx(0.5)
        assert found.random[gate].value == pytest.approx(0.2)
        assert found.difference[gate].value == pytest.approx(0.3)
        assert found.shares[gate] == (0.5, 0.5)
    # 0.2, 0.4, 0.3: the mean 0.3, and 4.303 standard errors of 0.1 / sqrt(3)
    assert found.difference[gates.GATES[0]].low == pytest.approx(0.3 - 4.3027 * 0.1 / 3**0.5, abs=1e-3)


def test_a_semi_bias_emerges_where_the_record_says_and_has_half_its_size_where_the_median_passes_it(monkeypatch):
    step = [1, 2, 4, 8]
    size = np.zeros((len(SEEDS), 4, 1, 3))
    size[:, :, 0] = np.array([0.0, 0.2, 0.6, 1.0])[:, None]
    size[1, :, 0] = np.array([0.0, 0.6, 0.8, 1.0])[:, None]
    loss = np.tile([8.0, 7.0, 5.0, 4.0], (len(SEEDS), 1))
    loss[-1, -1] = 3.0
    appears = {f"appears_{seed}": 4 if k else 2 for k, seed in enumerate(SEEDS)}
    given = {"step": step, "held_out": loss, "rank_correlation": 0 * size, "size": size, **appears}
    hand_over(monkeypatch, training, **given)
    found = training.measure_emergence(None)
    assert (found.em_step_low, found.em_step_high, found.em_loss) == (2, 4, 7.0)
    assert (found.em_half_low, found.em_half_high, found.em_half_loss) == (2, 4, 5.0)
    assert (found.em_first_loss, found.em_last, found.em_last_loss) == (8.0, 8, 4.0)
    assert (found.em_last_loss_low, found.em_last_loss_high) == (3.0, 4.0)


def test_endings_are_medians_over_heads_and_extremes_over_seeds(monkeypatch):
    rho, spread, alone, both = range(len(MEASURES))
    tilt = np.zeros((2, 4, 3))
    tilt[:, rho] = [[0.9, 1.0, -0.1], [0.95, 1.0, 1.0]]
    tilt[:, spread] = [[0.1, 0.2, 0.9], [0.3, 0.4, 0.5]]
    tilt[:, alone], tilt[:, both] = 0.25, [[0.3, 0.5, 0.6], [0.7, 0.8, 0.9]]
    ladder = np.zeros((3, 2, 4, 3))
    ladder[1, 1, rho, 2], ladder[2, 0, rho, 0], ladder[0, 1, spread, 1], ladder[2, 1, both, 0] = 0.91, 0.9, 0.05, 0.4
    tokens = np.array([[[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]], [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]]])
    overlap, losses = np.array([[0.1, 0.2, 0.9], [0.5, 0.6, 0.7]]), np.array([[4.0, 4.5], [4.0, 4.25]])
    hand_over(monkeypatch, training, tilt=tilt, ladder=ladder, tokens=tokens, losses=losses, overlap=overlap)
    found = training.measure_endings(None)
    assert (found.end_heads, found.end_rising, found.end_rho) == (6, 5, -0.1)
    assert (found.end_spread_low, found.end_spread_high) == (0.2, 0.4)
    assert (found.end_p_low, found.end_p_high, found.end_sum_low, found.end_sum_high) == (0.25, 0.25, 0.5, 0.8)
    assert (found.end_control_spread, found.end_control_sum) == (0.05, 0.4)
    assert (found.end_control_steady, found.end_control_heads) == (1, 18)
    assert (found.end_overlap_low, found.end_overlap_high) == (0.2, 0.6)
    assert (found.end_bq_low, found.end_bq_high) == (0.25, 0.5)
    assert (found.end_positive_low, found.end_positive_high) == (2, 3)
    assert (found.end_partial_low, found.end_partial_high) == (1, 2)


def test_diagonals_are_the_three_gates_on_lines(monkeypatch):
    class Rungs(SimpleNamespace):
        def __getitem__(self, name: str) -> np.ndarray:
            return self.measures[name]

    given = {"open": np.array([0.5, 0.0]), "backward": np.array([0.25, 1.0]), "forward": np.array([0.125, 2.0])}
    monkeypatch.setattr(controls, "load_rungs", lambda *_: Rungs(measures=dict(given)))
    assert controls.measure_rungs(None)["diagonals"].tolist() == [0.875, 3.0]


def test_the_shares_of_rows_that_fail_run_from_the_least_to_the_most_layer():
    kinds = ("trained", "plain", "kept", "plain kept", "control")
    shares = {kind: np.array([[0.5, 0, 1], [0.25, 0, 1], [0.75, 0, 1]]) / (k + 1) for k, kind in enumerate(kinds)}
    threshold = SimpleNamespace(rule=0.0452, table=0.0453, level=0.0512, critical=0.0451)
    found = _phrase_rows(threshold, SimpleNamespace(failing=shares), 384)
    assert (found.trained_low, found.trained_high) == ("25 %", "75 %")
    assert (found.plain_kept_low, found.plain_kept_high) == ("6 %", "19 %")
    assert (found.control_low, found.control_high) == ("5.0 %", "15.0 %")
    assert (found.rule, found.five, found.level, found.critical) == ("0.04520", "0.0453", "5.1 %", "0.0451")
