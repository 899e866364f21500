"""Vertical lines and diagonals: the directional, the open and the shifted gates, equations (4.1) to (4.8)."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from analysis.maps import gates
from analysis.maps.entropy import row_entropy
from book.studies.bert_gates.ideal_gates.cases import COLUMN, POSITIONS, Values, column_gate, rank
from book.studies.shared.errors import largest

SHIFTS = range(2, POSITIONS)  # the paper's j: the distance to the diagonal, plus one
LONG_POSITIONS, LONG_CHANNELS, LONG_SHIFT = 512, 64, 10


@dataclass(frozen=True)
class Column:
    """The directional gate and its output, equations (4.1) and (4.2); the entropy is that of the widest row (nats)."""

    form_error: float
    rank: int
    entropy: float
    output_error: float
    output_rank: int


@dataclass(frozen=True)
class Open:
    """The open gate and its output, equations (4.3) and (4.4); the entropy is that of the widest row (nats)."""

    output_error: float
    rank: int
    entropy: float
    output_rank: int
    values_rank: int


@dataclass(frozen=True)
class Backward:
    """The sub-diagonal gates, one entry for each ``j``, and their output, equations (4.5) and (4.6).

    ``nearest`` and ``farthest`` say how many positions back the pattern rows attend; ``rows_down`` and
    ``columns_right`` are the steps between the printed ends. A diagonal has as many of the one as of the other.
    """

    j: Int[np.ndarray, " gate"]
    ranks: Int[np.ndarray, " gate"]
    nearest: Int[np.ndarray, " gate"]
    farthest: Int[np.ndarray, " gate"]
    last_column: Int[np.ndarray, " gate"]
    rows_down: Int[np.ndarray, " gate"]
    columns_right: Int[np.ndarray, " gate"]
    output_error: float
    few_rows_rank: int  # of the output with the largest j
    long_output_rank: int  # of the output with 512 positions in 64 channels


@dataclass(frozen=True)
class Forward:
    """The super-diagonal gates, one entry for each pair of ``n`` and ``j``, and their output, (4.7) and (4.8)."""

    n: Int[np.ndarray, " gate"]
    j: Int[np.ndarray, " gate"]
    last_row: Int[np.ndarray, " gate"]
    rows_down: Int[np.ndarray, " gate"]
    columns_right: Int[np.ndarray, " gate"]
    output_error: float
    flip_error: float  # between the gate turned by half a turn and the sub-diagonal one


def measure_column(values: Values) -> Column:
    """Compare the directional gate with 1 e_i^T, and its output with 1 (v^i)^T."""
    gate = column_gate()
    outer = torch.ones(POSITIONS, 1, dtype=torch.float64) @ torch.eye(POSITIONS, dtype=torch.float64)[COLUMN, None]
    output = gate @ values
    return Column(
        largest(gate - outer), rank(gate), largest(row_entropy(gate)), largest(output - values[COLUMN]), rank(output)
    )


def measure_open(values: Values) -> Open:
    """Compare the output of the open gate with the values."""
    gate = gates.open_gate(POSITIONS)
    return Open(
        largest(gate @ values - values), rank(gate), largest(row_entropy(gate)), rank(gate @ values), rank(values)
    )


def measure_backward(values: Values) -> Backward:
    """Follow the sub-diagonal gates of all ``j`` and their printed ends."""
    n, mean = POSITIONS, values.mean(0)
    by_j = {j: gates.backward(n, j - 1) for j in SHIFTS}
    distances = [torch.arange(j - 1, n) - gate[j - 1 :].argmax(-1) for j, gate in by_j.items()]
    down, right = printed_steps("4.5", [(n, j) for j in SHIFTS])
    outputs = {j: torch.cat([mean.expand(j - 1, -1), values[: n - j + 1]]) for j in SHIFTS}
    return Backward(
        j=np.array(SHIFTS),
        ranks=np.array([rank(gate) for gate in by_j.values()]),
        nearest=np.array([int(distance.min()) for distance in distances]),
        farthest=np.array([int(distance.max()) for distance in distances]),
        last_column=np.array([int(gate[-1].argmax()) + 1 for gate in by_j.values()]),
        rows_down=down,
        columns_right=right,
        output_error=max(largest(gate @ values - outputs[j]) for j, gate in by_j.items()),
        few_rows_rank=rank(by_j[SHIFTS[-1]] @ values),
        long_output_rank=rank_of_long_output(),
    )


def rank_of_long_output() -> int:
    """Return the rank of the sub-diagonal gate's output where there are more positions than channels."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(LONG_POSITIONS, LONG_CHANNELS, generator=generator, dtype=torch.float64)
    return rank(gates.backward(LONG_POSITIONS, LONG_SHIFT - 1) @ values)


def measure_forward(values: Values) -> Forward:
    """Follow the super-diagonal gates of all ``j``, for an even and an odd ``n``: only an odd one has 2j = n + 1."""
    n, mean = POSITIONS, values.mean(0)
    pairs = [(size, j) for size in (n, n + 1) for j in range(2, size)]
    sizes, shifts = np.array(pairs).T
    last_rows = [int((gates.forward(size, j - 1).amax(-1) == 1).nonzero().max()) + 1 for size, j in pairs]
    down, right = printed_steps("4.7", pairs)
    by_j = {j: gates.forward(n, j - 1) for j in SHIFTS}
    outputs = {j: torch.cat([values[j - 1 :], mean.expand(j - 1, -1)]) for j in SHIFTS}
    return Forward(
        n=sizes,
        j=shifts,
        last_row=np.array(last_rows),
        rows_down=down,
        columns_right=right,
        output_error=max(largest(gate @ values - outputs[j]) for j, gate in by_j.items()),
        flip_error=max(largest(gate.flip(0, 1) - gates.backward(n, j - 1)) for j, gate in by_j.items()),
    )


def printed_steps(equation: str, pairs: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows down and the columns right between the printed ends of a diagonal, for pairs of n and j."""
    ends = np.array([gates.printed_ends(equation, n, j) for n, j in pairs])
    rows_down, columns_right = (ends[:, 1] - ends[:, 0]).T
    return rows_down, columns_right
