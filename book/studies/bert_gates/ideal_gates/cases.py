"""The gates that are tried, the random matrices that they act on, and the rank."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps import gates

POSITIONS, CHANNELS = 12, 5
COLUMN = 4  # the key of the directional gate
QUERY, KEYS = 7, (0, 2, 9)  # the row of the instance and inverse directional gates, and its keys
BLOCK_QUERIES, BLOCK_KEYS = range(1, 6), range(2, 7)
BLOCK_K = 4  # the paper's k: it prints 1/k into k + 1 columns

Values = Float[Tensor, "position channel"]


@dataclass(frozen=True)
class Draws:
    """Random matrices of one seed: values, another map, weights of three gates in every row, scores."""

    values: Values
    attention: Float[Tensor, "position position"]
    weights: Float[Tensor, "gate position 1"]
    scores: Float[Tensor, "position position"]


def draw(seed: int = 1) -> Draws:
    """Draw everything that is random from one generator."""
    generator = torch.Generator().manual_seed(seed)
    n, exact = POSITIONS, {"generator": generator, "dtype": torch.float64}
    values = torch.randn(n, CHANNELS, **exact)
    attention = torch.rand(n, n, **exact).softmax(-1)
    weights = torch.rand(3, n, 1, **exact)
    return Draws(values, attention, weights / weights.sum(0), torch.randn(n, n, **exact))


def column_gate() -> Tensor:
    """Build the directional gate of the tests."""
    return gates.directional(POSITIONS, COLUMN)


def block_gate() -> Tensor:
    """Build the cluster of the tests."""
    return gates.cluster(POSITIONS, BLOCK_QUERIES, BLOCK_KEYS)


def instance_gate() -> Tensor:
    """Build the instance gate of the tests: the second key of the inverse directional one."""
    return gates.instance(POSITIONS, QUERY, KEYS[1])


def inverse_gate() -> Tensor:
    """Build the inverse directional gate of the tests."""
    return gates.inverse_directional(POSITIONS, QUERY, KEYS)


def rank(matrix: Tensor) -> int:
    """Return the numerical rank."""
    return torch.linalg.matrix_rank(matrix).item()
