"""The costs of streaming capture on tiny inputs: ways agree, and both are measured with their work."""

import pytest
import torch

from analysis.maps.streaming import MapStatistics
from book.experiments import streaming_capture


def test_statistics_of_a_map_by_hand_one_by_one_and_by_formulas():
    """Two positions: the first sees itself alone, the second both alike."""
    maps = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    by_hand = ([0, 0.6931], [0.5, 1.5, 0], [1.5, 0.5], [1, 1])  # entropy, diagonals from below, columns, rows
    for way in (streaming_capture.vectorised, streaming_capture.naive):
        for found, due in zip(way(maps), by_hand, strict=True):
            torch.testing.assert_close(found[0], torch.tensor(due, dtype=torch.float32), atol=1e-4, rtol=0)


def test_streamed_statistics_are_near_to_those_of_double_precision():
    assert streaming_capture.distance_on(torch.device("cpu")) < 1e-6


def test_the_distance_is_the_largest_difference():
    generator = torch.Generator().manual_seed(0)
    shape = streaming_capture.BATCH, 1, streaming_capture.N, 4
    query, key, value = (torch.randn(shape, generator=generator) for _ in range(3))
    counted = MapStatistics(1, 1, streaming_capture.N)
    counted.attend(0, query, key, value, scale=0.5)
    exact = streaming_capture.vectorised((query.double() @ key.double().mT / 2).softmax(-1))
    assert streaming_capture.distance(counted, exact) < 1e-6
    exact[0][0, 3] += 8 * 0.01  # the entropy of one query, a sum over eight texts
    assert streaming_capture.distance(counted, exact) == pytest.approx(0.01, rel=1e-3)


def test_the_work_is_that_of_the_matrix_products():
    from torch.utils.flop_counter import FlopCounterMode

    model, _ = streaming_capture.base(1)
    model.set_attn_implementation("eager")  # fused attention is not counted on a CPU
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.ones(1, 64, dtype=torch.long))
    assert counter.get_total_flops() == streaming_capture.operations(1, 768, 3072, 64)
