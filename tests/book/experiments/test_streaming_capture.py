"""The costs of streaming capture on tiny inputs: ways agree, and both are measured with their work."""

import pytest
import torch

from analysis.maps.streaming import MapStatistics
from book.experiments import streaming_capture_gpu_cost as gpu_cost
from book.lab import stored_maps


def test_statistics_of_a_map_by_hand_one_by_one_and_by_formulas():
    """Two positions: the first sees itself alone, the second both alike."""
    maps = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    by_hand = ([0, 0.6931], [0.5, 1.5, 0], [1.5, 0.5], [1, 1])  # entropy, diagonals from below, columns, rows
    for way in (stored_maps.vectorised, stored_maps.naive):
        for found, due in zip(way(maps), by_hand, strict=True):
            torch.testing.assert_close(found[0], torch.tensor(due, dtype=torch.float32), atol=1e-4, rtol=0)


def test_streamed_statistics_are_near_to_those_of_double_precision():
    assert gpu_cost.distance(torch.device("cpu")) < 1e-6


def test_the_distance_is_the_largest_difference():
    generator = torch.Generator().manual_seed(0)
    shape = stored_maps.BATCH, 1, stored_maps.N, 4
    query, key, value = (torch.randn(shape, generator=generator) for _ in range(3))
    counted = MapStatistics(1, 1, stored_maps.N)
    counted.attend(0, query, key, value, scale=0.5)
    exact = stored_maps.vectorised((query.double() @ key.double().mT / 2).softmax(-1))
    assert stored_maps.distance(counted, exact) < 1e-6
    exact[0][0, 3] += 8 * 0.01  # the entropy of one query, a sum over eight texts
    assert stored_maps.distance(counted, exact) == pytest.approx(0.01, rel=1e-3)


def test_the_work_is_that_of_the_matrix_products():
    from torch.utils.flop_counter import FlopCounterMode

    model, _ = stored_maps.base(1)
    model.set_attn_implementation("eager")  # fused attention is not counted on a CPU
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.ones(1, 64, dtype=torch.long))
    assert counter.get_total_flops() == gpu_cost.operations(1, 768, 3072, 64)
