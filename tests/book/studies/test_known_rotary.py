"""The study of rotary positions on inputs whose answer is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from analysis.models.controls import Control
from book.lab.training import gpt2_mini
from book.studies.rotary_bias import heads, ladder
from book.studies.rotary_bias.heads import CONTENT, NO_KERNEL, NO_SEMI, NO_SIDE, WAYS, WHOLE
from tests.book.studies.known import record


def ablations() -> dict[str, np.ndarray]:
    """Two runs of two layers and two heads: head 1.1 of the first run and 1.0 of the second look one back."""
    previous = np.zeros((2, len(WAYS), 2, 2))
    previous[0, WHOLE], previous[1, WHOLE] = [[0.1, 0.2], [0.1, 0.8]], [[0.1, 0.24], [0.5, 0.1]]
    mean = previous.copy()
    previous[0, NO_KERNEL, 1, 1], previous[1, NO_KERNEL, 1, 0] = 0.7, 0.25
    mean[0, NO_KERNEL, 1, 1], mean[1, NO_KERNEL, 1, 0] = 0.2, 0.4
    mean[:, NO_SEMI], mean[0, NO_SIDE, 1, 1], mean[0, CONTENT, 1, 1] = 0.1, 0.9, 0.05
    gpt2 = np.zeros((len(WAYS), 2, 2))
    gpt2[WHOLE], gpt2[NO_KERNEL] = 0.3, 0.2
    after = np.full((2, 1, 2, 2, 2), 9.0)
    after[0, 0, :, -1, 1] = 0.6, 0.35
    return {
        "previous_bias": previous,
        "previous_mean": mean,
        "gpt2_previous_mean": gpt2,
        "gpt2_previous_bias": gpt2 / 2,
        "by_head_bias": np.arange(8.0).reshape(2, 2, 2) / 100,
        "by_head_mean": -np.arange(8.0).reshape(2, 2, 2) / 100,
        "gpt2_by_head_bias": np.array([[0.1, -0.4], [0, 0]]),
        "gpt2_by_head_mean": np.array([[0.2, 0.3], [0, 0]]),
        "previous_after_mean": after,
    }


def test_the_head_that_looks_back_most_is_named_with_what_it_loses(monkeypatch):
    monkeypatch.setattr(heads, "seeds_of", lambda name: [0] if name == "neox-mini" else [1])
    found = heads.measure_heads(record(**ablations()))
    assert (found.previous_head, found.previous_best) == ("1.1", 0.8)
    assert (found.previous_no_kernel, found.previous_no_mean_kernel, found.previous_content) == (0.7, 0.2, 0.05)
    assert (found.strong_heads, found.strong_place) == (2, ", all of them in the last layer")
    assert (found.strong_left_bias, found.strong_left_mean) == (2, 1)
    assert (found.strong_left_semi, found.strong_left_side) == (0, 1)
    assert (found.strong_drop_low, found.strong_drop_high) == (pytest.approx(0.2), pytest.approx(0.75))
    assert (found.gpt2_rise_head, found.head_rise_bias_high, found.head_rise_mean_high) == (0.4, 0.07, 0)
    assert found.later_least == 0.35
    own, without = found.previous_panel[heads.NAMES[0]]
    assert (own.shape, without[1, 1, 0]) == ((2, 2, 2), 0.25)
    assert found.rise_panel[heads.NAMES[1]][1].min() == -0.07
    assert found.previous_panel[heads.NAMES[2]][1].tolist() == [[0.2, 0.2]] * 2


class Network(nn.Module):
    """One bias of queries, keys and values, and one that is not."""

    def __init__(self, scale: float):
        super().__init__()
        each = torch.arange(3.0).repeat_interleave(2).repeat(gpt2_mini.HEADS)  # by head: q q k k v v
        self.query_key_value, self.dense = nn.Linear(1, len(each)), nn.Linear(1, 4)
        self.query_key_value.bias.data = scale * (each + 1)
        self.dense.bias.data = scale * torch.arange(4.0)


def test_biases_of_queries_keys_and_values_are_three():
    query, key, value, dense = ladder._bias_vectors(Network(1))
    assert [part.unique().tolist() for part in (query, key, value)] == [[1], [2], [3]]
    assert dense.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("rung", ["permuted", "random, as large"])
def test_biases_of_a_control_are_as_long_as_the_trained_ones(rung):
    trained = Network(2.0)
    control = Control(rung, 3, Network(0.0))
    changed = ladder.change_biases(control, trained)
    for new, old in zip(ladder._bias_vectors(changed), ladder._bias_vectors(trained), strict=True):
        assert new.norm().item() == pytest.approx(old.norm().item(), rel=1e-5)
        same = new.flatten().sort().values.tolist() == pytest.approx(old.flatten().sort().values.tolist())
        assert same == (rung == "permuted")
    assert control.network.dense.bias.abs().max() == 0


def test_random_phases_keep_the_amplitudes_and_are_even():
    g, sizes = torch.Generator().manual_seed(0), torch.rand(50, 40).double()
    kernel = ladder.Kernel(sizes, torch.zeros(50, 40).double(), torch.ones(40).double(), torch.ones(50).double())
    drawn = ladder.with_random_phases(kernel, g)
    assert torch.equal(drawn.amplitude, sizes)
    assert torch.equal(drawn.constant, kernel.constant)
    assert -math.pi <= drawn.phase.min() < -3.1 < 3.1 < drawn.phase.max() <= math.pi
    assert drawn.phase.mean().abs() < 0.1
    assert drawn.phase.std().item() == pytest.approx(math.pi / 3**0.5, rel=0.03)


def test_a_kernel_depends_on_how_far_query_and_key_are_apart():
    kernel = ladder.Kernel(
        torch.tensor([[2.0]]), torch.tensor([[math.pi / 2]]), torch.tensor([math.pi / 2]), torch.tensor([10.0])
    )
    scores = ladder.spread_kernel(kernel, 3)[0]
    by_distance = {distance: kernel.at(torch.tensor([float(distance)])).item() for distance in range(-2, 3)}
    assert by_distance[1] != pytest.approx(by_distance[-1])
    for query in range(3):
        for key in range(3):
            assert scores[query, key].item() == pytest.approx(by_distance[query - key], abs=1e-5)


def test_numbers_of_a_network_are_differences_from_the_whole(monkeypatch):
    rotary = SimpleNamespace(layers=[SimpleNamespace(positions=None)])
    monkeypatch.setattr(ladder.reading, "load", lambda _: rotary)
    monkeypatch.setattr(ladder, "make_probe", lambda _: lambda *_: {})
    curve = np.array([[[0.0, 3.0, 1.0]]])
    monkeypatch.setattr(ladder, "ranges", lambda values: np.ptp(np.stack(list(values)), -1))
    monkeypatch.setattr(ladder, "curves", lambda *_: curve)
    slope = SimpleNamespace(slope=lambda slower_than: torch.tensor([-0.5]))
    monkeypatch.setattr(ladder, "kernel_of", lambda *_: slope)
    monkeypatch.setattr(ladder, "biases_of", lambda _: {"bias": 1.0, "mean": 2.0})
    monkeypatch.setattr(ladder, "lose_parts", lambda _, __, biases, ___: [4.0, 4.0 + biases, 5.0])
    means = SimpleNamespace(means=lambda: np.zeros(1))
    monkeypatch.setattr(ladder, "split_attention", lambda *_: means)
    monkeypatch.setattr(ladder, "_previous", lambda _, __, biases, ___: np.array(biases))
    found = ladder.measure_network(None, torch.zeros(2, 2))
    assert found["range"].flatten().tolist() == [3.0] * len(ladder.SOURCES)
    assert found["peak"].flatten().tolist() == [1] * len(ladder.SOURCES)
    assert (found["loss"], found["slope"].tolist()) == (4.0, [[-0.5]])
    assert found["rise"].tolist() == [[0, 1, 1], [0, 2, 1]]
    assert found["previous"].tolist() == [1, 2]
