"""Mixtures of gates, and how near a softmax comes to the ideal."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.maps import gates
from analysis.maps.entropy import row_entropy
from book.studies.bert_gates.ideal_gates.cases import POSITIONS, Draws, block_gate, column_gate
from book.studies.shared.errors import largest

FACTORS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Mixture:
    """A mixture of three gates with weights of every row, and two decompositions into directional gates."""

    output_error: float
    row_sum_error: float
    closed_of_columns_error: float
    mixture_of_columns_error: float
    plain_row_sum: float  # the largest, of the column and the diagonal added without weights
    entropy_gain: float  # the least, over rows, of its entropy less the mean of its parts' (nats)


@dataclass(frozen=True)
class Softmax:
    """How much of a row lies off its largest cell if the scores are multiplied, and the bound on it."""

    factors: tuple[float, ...]
    off_pattern: Float[np.ndarray, " factor"]
    bounds: Float[np.ndarray, " factor"]


def measure_mixture(draws: Draws) -> Mixture:
    """Mix a column, a block and the diagonal, and decompose the mixture and the closed gate into columns."""
    n, parts = POSITIONS, torch.stack([column_gate(), block_gate(), gates.open_gate(POSITIONS)])
    mixture = (draws.weights * parts).sum(0)
    outputs = (draws.weights * (parts @ draws.values)).sum(0)
    columns = torch.stack([gates.directional(n, column) for column in range(n)])
    of_columns = sum(mixture[:, column, None] * gate for column, gate in enumerate(columns))
    entropy_of_parts = (draws.weights[..., 0] * row_entropy(parts)).sum(0)
    return Mixture(
        output_error=largest(mixture @ draws.values - outputs),
        row_sum_error=largest(mixture.sum(-1) - 1),
        closed_of_columns_error=largest(columns.mean(0) - gates.closed(n)),
        mixture_of_columns_error=largest(of_columns - mixture),
        plain_row_sum=(parts[0] + parts[2]).sum(-1).max().item(),
        entropy_gain=(row_entropy(mixture) - entropy_of_parts).min().item(),
    )


def measure_softmax(scores: Float[Tensor, "position position"]) -> Softmax:
    """Multiply random scores and see how much stays off the largest cell of a row."""
    best, second = scores.topk(2).values.unbind(-1)
    gap = (best - second).min().item()
    off_pattern = [(1 - (factor * scores).softmax(-1).amax(-1)).max().item() for factor in FACTORS]
    return Softmax(FACTORS, np.array(off_pattern), (POSITIONS - 1) * np.exp(-gap * np.array(FACTORS)))
