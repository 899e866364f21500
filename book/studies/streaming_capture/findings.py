"""What the page on streaming capture holds its numbers to; each condition can fail."""

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps.streaming import MapStatistics
from book.studies.streaming_capture.measure import Measured

ROUNDING = 1e-6  # of sums in float32


def costs_are_within_limits(m: Measured) -> bool:
    """Streaming costs no more time and memory than was promised, and saves no less."""
    return all(cost.within_limit for cost in m.costs.values())


def a_gpu_gives_the_same_numbers(m: Measured) -> bool:
    """The statistics that a GPU takes are those of maps in float64, up to rounding in single precision."""
    return m.gpu.error < ROUNDING


def agrees(differences: Float[Tensor, "layer head *rest"]) -> bool:
    """The streamed statistic is that of the stored maps, up to rounding."""
    return differences.abs().max().item() < ROUNDING


def same_bits(statistics: MapStatistics, others: MapStatistics) -> bool:
    """All sums of two statistics are the same to the last bit."""
    return all(torch.equal(total, others.state[name]) for name, total in statistics.state.items())
