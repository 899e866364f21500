"""Ladders and interventions of the studies of rotary positions and of gates, on inputs known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES
from analysis.models.controls import RUNGS
from book.studies.bert_gates import query_bias, sink
from book.studies.rotary_bias import ladder, parts
from book.studies.rotary_bias.parts import COUNTED, PARTS, WAYS
from tests.book.studies.known import Known, double

LARGE, PERMUTED = ladder.LARGE, ladder.PERMUTED
SOURCES, LAYERS, HEADS, SEEDS = 3, 2, 3, 2
MEAN, BIAS = SOURCES - 1, 0


def arrays() -> dict[str, np.ndarray]:
    """Return zeros for the trained model and for two seeds of each rung."""
    shapes = {
        "range": (SOURCES, LAYERS, HEADS),
        "peak": (SOURCES, LAYERS, HEADS),
        "slope": (LAYERS, HEADS),
        "rise": (len(COUNTED), len(WAYS)),
        "shares": (len(COUNTED), LAYERS, HEADS, 5),
        "loss": (),
        "previous": (len(COUNTED), len(WAYS), LAYERS, HEADS),
    }
    found = {f"trained_{name}": np.zeros(shape) for name, shape in shapes.items()}
    found |= {f"control_{name}": np.zeros((len(RUNGS), SEEDS, *shape)) for name, shape in shapes.items()}
    found["trained_shares"] += 1
    found["control_shares"] += 1
    return found | {"rise_random_phases": np.array([[0.1, 0.5], [0.3, 0.4]])}


def read(monkeypatch, of: dict[str, np.ndarray]) -> ladder.Rungs:
    monkeypatch.setattr(ladder, "live_or_record", lambda name, _: (Known(arrays=of), name))
    found, sentence = ladder.measure_rungs(None)
    assert sentence == "rotary-bias-ladder"
    return found


def test_sizes_are_those_of_the_median_head(monkeypatch):
    of = arrays()
    of["trained_range"][MEAN, 1], of["trained_range"][BIAS, 0] = [1, 2, 9], [3, 4, 9]
    of["control_range"][LARGE, :, MEAN, 1] = [[0.1, 0.2, 0.9], [0.1, 0.3, 0.9]]
    of["control_range"][PERMUTED, :, MEAN, 1] = [[0.1, 0.5, 0.9], [0.1, 0.4, 0.9]]
    of["control_range"][LARGE, :, BIAS, 0] = [[1, 1.5, 9], [1, 1.25, 9]]
    of["control_range"][0, 0, MEAN, 0, 2] = 7
    found = read(monkeypatch, of)
    assert (found.range_mean, found.range_bias, found.range_most) == (2, 4, 7)
    assert found.range_mean_large_high == 0.3
    assert (found.range_mean_permuted_low, found.range_mean_permuted_high) == (0.4, 0.5)
    assert (found.range_bias_large_low, found.range_bias_large_high) == (1.25, 1.5)
    assert found.sizes_names == ("biases, layer 0", "biases, layer 1", "mean input, layer 0", "mean input, layer 1")
    assert found.sizes["size"].trained.tolist() == [4, 0, 0, 2]
    assert found.sizes["size"].controls[RUNGS[PERMUTED]].tolist() == [[0, 0, 0, 0.5], [0, 0, 0, 0.4]]


def test_kernels_are_near_if_they_have_a_size_and_their_best_distance_is_small(monkeypatch):
    of = arrays()
    of["trained_range"][:], of["control_range"][:] = 1, 1
    of["trained_range"][MEAN, 0, 0] = 0  # no kernel, whose largest value is the first
    of["trained_peak"][MEAN] = [[0, 4, 5], [5, 5, 4]]
    of["trained_peak"][BIAS] = [[2, 3, 0], [3, 3, 3]]
    of["control_peak"][:] = 9
    of["control_peak"][LARGE, 1, MEAN, 0], of["control_peak"][PERMUTED, 0, MEAN, :, 0] = 4, 1
    of["control_peak"][LARGE, 0, BIAS, 1, 2] = 2
    of["trained_slope"][:], of["control_slope"][1, 1] = [[-1, -2, 0], [1, 2, -3]], -1
    found = read(monkeypatch, of)
    assert (found.near, found.near_large_high, found.near_permuted_high) == (2, 3, 2)
    assert (found.nearest, found.nearest_large_high) == (2, 1)
    assert (found.slope_down, found.slope_down_random_high) == (3, 6)
    assert found.sizes["near keys"].trained.tolist() == [3, 3, 1, 1]  # within 4 positions, of the biases as well
    assert found.sizes["near keys"].controls[RUNGS[LARGE]].tolist() == [[0, 1, 0, 0], [0, 0, 3, 0]]


def test_parts_have_a_share_and_a_worth(monkeypatch):
    of, ways = arrays(), list(WAYS)
    of["trained_rise"][1, ways.index("no kernel")] = 0.75
    of["trained_rise"][0, ways.index("no semi-bias")] = 0.25
    of["control_rise"][0, 1, 0, 2], of["control_rise"][2, 0, 1, 3] = 0.125, -0.5
    share = of["trained_shares"]
    share[..., 4] = 99
    share[0, 0, 0, PARTS.index("semi_bias")] = 25  # of 48 in all; the rest stays 1
    share[1, 1, :, PARTS.index("kernel")] = 2  # of 15 in layer 1 six, of 27 nine in all
    control = of["control_shares"]
    control[1:, 0, 0, :, :, PARTS.index("query_side")] = 3  # half
    control[LARGE, 1, 1, 1, :, PARTS.index("kernel")] = 5  # 15 of 24, and 18 of 36
    control[PERMUTED, 0, 1, 1, :, PARTS.index("kernel")] = 0
    of["trained_loss"], of["control_loss"][LARGE] = np.array(3.0), [4, 3.5]
    of["control_previous"][LARGE, 1, 0, 0, 1, 2], of["control_previous"][LARGE, 1, 1] = 0.4, 9
    found = read(monkeypatch, of)
    assert (found.rise_mean_kernel, found.rise_control_high, found.fall_control_high) == (0.75, 0.125, 0.5)
    assert (found.phases_mean_low, found.phases_mean_high) == (0.4, 0.5)
    assert (found.phases_bias_low, found.phases_bias_high) == (0.1, 0.3)
    assert (found.own_semi, found.own_side) == (pytest.approx(30 / 48), pytest.approx(6 / 48))
    assert (found.own_semi_low, found.own_semi_high) == (pytest.approx(1 / 6), pytest.approx(1 / 4))
    assert (found.own_side_low, found.own_side_high) == (pytest.approx(1 / 4), pytest.approx(1 / 2))
    assert (found.own_kernel, found.own_kernel_high) == (pytest.approx(9 / 27), pytest.approx(18 / 36))
    assert (found.kernel_share, found.kernel_share_large_high) == (pytest.approx(6 / 15), pytest.approx(15 / 24))
    assert (found.kernel_share_permuted_low, found.kernel_share_permuted_high) == (0, pytest.approx(1 / 4))
    assert (found.loss_large_low, found.previous_large_high) == (3.5, 0.4)
    assert found.parts_names[0] == "semi-bias, biases"
    assert found.parts_names[5] == "kernel, mean input"
    assert found.parts["worth to the loss"].trained.tolist() == [0.25, 0, 0, 0, 0, 0.75]
    assert found.parts["share of the attention"].trained[0] == pytest.approx(30 / 48)


# ---- parts of rotary scores, one by one


def test_parts_of_a_score_are_taken_away_one_by_one():
    """One head of width 1 that nothing turns: queries 1 and 2 with a bias of 1, keys 3 and 5 with a bias of 2."""
    query, key = double([[[1], [2]]]), double([[[3], [5]]])
    scores = parts.Scores([(double([1]), double([2]))], None, watch=("whole", "no kernel", "content only"))
    found = scores._parts(0, query, key, 0.5)
    assert found["semi_bias"][0, 0, 0].tolist() == [0.5, 1.5]  # b_Q times 1 and 3
    assert found["query_side"].flatten().tolist() == [0, 0, 1, 1]  # 0 and 1 times b_K
    assert found["kernel"].unique().tolist() == [1]
    value = torch.eye(2).double()[None, None]
    whole = scores(0, query, key, value, scale=0.5, causal=True)[0, 0]
    e = np.exp
    assert whole.flatten().tolist() == pytest.approx([1, 0, e(3) / (e(3) + e(5)), e(5) / (e(3) + e(5))])
    previous = scores.previous_attention()[:, 0, 0]
    assert previous.tolist() == pytest.approx([1 / (1 + e(2)), 1 / (1 + e(2)), 1 / (1 + e(1))])  # content .5 and 1.5
    less = parts.Scores(scores.biases, None, drop=WAYS["content only"])
    assert less(0, query, key, value, scale=0.5)[0, 0, 0].tolist() == pytest.approx([0.5, 0.5])
    one = parts.Scores([scores.biases[0]] * 2, None, drop=("semi_bias",), head=(1, 0))
    assert one(0, query, key, value, scale=0.5)[0, 0, 1, 0].item() == pytest.approx(1 / (1 + e(2)))
    assert one(1, query, key, value, scale=0.5)[0, 0, 1, 0].item() == pytest.approx(1 / (1 + e(1)))
    instead = parts.Scores(scores.biases, None, drop=("semi_bias",), instead=[found["semi_bias"][0]])
    assert instead(0, query, key, value, scale=0.5)[0, 0, 1, 0].item() == pytest.approx(1 / (1 + e(2)))


# ---- gates


def test_maps_are_read_under_each_bias_and_the_output_stays(monkeypatch):
    monkeypatch.setattr(query_bias.streaming, "visit_maps", lambda _: lambda layer, query, key, value, **__: value)
    read = []
    scores = torch.zeros(1, len(GATES)).double()

    def read_gates(maps, causal):
        read.append((maps[0], causal))
        return SimpleNamespace(scores=scores + len(read))

    monkeypatch.setattr(query_bias.gates, "read_gates", read_gates)
    own, others = [double([1])], {"own": [double([1])], "none": [double([0])]}
    reader = query_bias.Exchange(own, others)
    query, key = double([[[1], [1]]]), double([[[0], [2]]])
    assert reader(0, query, key, "value", scale=0.5) == "value"
    e = np.e
    assert read[0][0].tolist() == pytest.approx(np.array([[1 / (1 + e), e / (1 + e)]] * 2))
    assert read[1][0].tolist() == pytest.approx(np.full((2, 2), 0.5))  # without its bias the query is 0
    assert reader.found[:, 0, 0, 0].tolist() == [1, 2]
    reader(0, query, key, "value", scale=0.5, causal=True)
    assert read[2][0][0].tolist() == [1, 0]
    assert read[2][1]


def test_columns_with_other_biases_are_means_over_texts(monkeypatch):
    directional = GATES.index("directional")
    own = [double([3, 4], [0, 0]), double([0, 1], [5, 12])]
    monkeypatch.setattr(
        query_bias, "load", lambda model: SimpleNamespace(layers=[SimpleNamespace(b_Q=model * bias) for bias in own])
    )
    trained = np.zeros((3, 3, 2, 2, len(GATES)))  # text, way, layer, head, gate
    trained[:, 0, ..., directional] = [[[0.3, 0.1], [0.1, 0.1]], [[0.5, 0.1], [0.1, 0.1]], [[0.2, 0.1], [0.1, 0.1]]]
    trained[:, 1, 0, 0, directional] = [0.1, 0.2, 0.9]
    trained[:, 2, 0, 0, directional] = [0.4, 0.4, 0.4]
    lent = np.zeros((3, 2, 2, 2, len(GATES)))
    lent[:, 1, ..., directional] = 0.25
    seen = []

    def exchange(model, tokenizer, passages, others):
        seen.append(others)
        return trained if "random" in others else lent

    monkeypatch.setattr(query_bias, "exchange", exchange)
    found = query_bias.survey(1.0, 0.0, None, None)
    values = {name: value.value for name, value in found.values.items()}
    assert values["maps_mostly"] == 2  # three tenths are enough
    assert (values["columns_own"], values["mostly_own"]) == (
        pytest.approx((0.15 + 0.2 + 0.125) / 3),
        pytest.approx(0.4),
    )
    assert (values["columns_none"], values["mostly_none"]) == (pytest.approx(0.1), pytest.approx(0.15))
    assert (values["columns_random"], values["mostly_random"]) == (pytest.approx(0.1), pytest.approx(0.4))
    assert (values["control_own"], values["control_lent"]) == (0, 0.25)
    first, second = seen
    assert [bias.norm(dim=-1).tolist() for bias in first["random"]] == [pytest.approx([5, 0]), pytest.approx([1, 13])]
    assert max(bias.abs().max() for bias in first["none"]) == 0
    assert not torch.allclose(first["random"][0][0], own[0][0])
    assert (second["own"][0].abs().max(), second["lent"][1].tolist()) == (0, own[1].tolist())


def test_a_part_of_the_sink_is_taken_in_every_layer(monkeypatch):
    """Layers that write what their maps read of the rows: three rows of one map with a sink of a half."""
    maps = double([[0.5, 0.25, 0.25]] * 3)

    def run_layer(x, layer, patched_attention=None):
        used = maps if patched_attention is None else patched_attention
        return SimpleNamespace(attention=maps, second=layer * (used[0] @ x))

    monkeypatch.setattr(sink, "run_layer", run_layer)
    x = double([2, 0], [0, 4], [0, 0])
    rows, taken = sink.run_without(x, [1.0, 3.0], lambda of: of * sink.choose_sink(of), sink.leave_short)
    assert [each.flatten().tolist() for each in taken] == [[0.5] * 3] * 2
    assert rows[0].tolist() == pytest.approx([0, 1.5])  # a half of (0, 1), three times
    states = torch.stack([x, double([1, 0], [1, 0], [1, 0])])
    assert sink.turn(states, [1.0], sink.leave_short, 0.0) == pytest.approx(1 - 2**-0.5)  # rows (1, 1)
    assert sink.turn(states, [1.0], sink.leave_short, 1.0) == pytest.approx(1)
    assert sink.turn(states, [1.0], sink.leave_short, 0.5) == pytest.approx(1 - 0.5 / 1.25**0.5)
    ways = list(sink.WAYS)
    found = sink.measure_ways(states, [1.0], sink.choose_sink, ways, 0)
    assert found[ways.index(sink.SHORT[0])] == (pytest.approx(1), pytest.approx(0.5))
    assert found[1][1] == pytest.approx(0.5)  # as much at random
    assert found[2] == (pytest.approx(1), pytest.approx(0.5))
    assert found[4] == (pytest.approx(1 - 1 / 5**0.5), 0)  # (1, 2): nothing taken, the others twice as large
