"""The ideal gates held to the paper's formulas: errors, ranks and entropies, in float64.

Lines and diagonals (equations (4.1) to (4.8)), gates of a few rows or of none, mixtures, and how near a softmax comes.
Positions are counted from 1 where a field speaks of the paper's ``i``, ``j`` or ``k``, and from 0 in the code. Errors
are the largest absolute differences of two matrices.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.maps import gates
from analysis.maps.entropy import row_entropy
from book.studies.bert_gates.printed_gates import PrintedGates, measure_printed_gates
from book.studies.shared.equality import largest

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


@dataclass(frozen=True)
class Block:
    """The cluster as printed and as it must be, and its output, equations (4.9) and (4.10)."""

    k: int
    printed_row_sums: Float[np.ndarray, " row"]
    rescaled_error: float  # of the printed block times k/(k + 1)
    output_error: float
    printed_output_error: float  # between the printed block's output and (k + 1)/k times the mean
    lines_error: float  # between the cluster and the mean of its short columns


@dataclass(frozen=True)
class Instance:
    """The instance gate and its output, equations (4.11) and (4.12)."""

    rank: int
    rows_without_entropy: int
    rows_of_largest_entropy: int
    output_error: float
    swapped_difference: float  # what the sentence says with place and components swapped, against the output


@dataclass(frozen=True)
class Closed:
    """The closed gate and its output, equations (4.13) and (4.14); entropies in nats."""

    entropy_error: float
    other_entropy: float  # the largest of a random map
    output_error: float
    instance_difference: float  # between the output of the instance gate, as printed, and the mean


@dataclass(frozen=True)
class Inverse:
    """The inverse directional gate and its output, equations (4.15) and (4.16)."""

    entries: int
    row_sum_error: float
    ones_row_sum: float  # of the row if its entries are 1, as those of the printed instance gate are
    other_rows_error: float
    output_error: float
    instance_difference: float  # between the output of the instance gate, as printed, and the mean over K
    instances_error: float  # between the gate and the mean of the instance gates
    one_key_error: float  # between the gate of one key and the instance gate


def measure_block(values: Values) -> Block:
    """Compare the cluster with its printed form, its output with means, and itself with short columns."""
    n, gate, rows = POSITIONS, block_gate(), list(BLOCK_QUERIES)
    as_printed = gates.printed_block(n, BLOCK_KEYS.start + 1, BLOCK_QUERIES.start + 1, BLOCK_K)
    mean = values[list(BLOCK_KEYS)].mean(0)
    expected = values.mean(0).expand(n, -1).clone()
    expected[rows] = mean
    excess = (BLOCK_K + 1) / BLOCK_K
    lines = torch.stack([gates.cluster(n, BLOCK_QUERIES, range(key, key + 1)) for key in BLOCK_KEYS])
    return Block(
        BLOCK_K,
        printed_row_sums=as_printed[rows].sum(-1).numpy(),
        rescaled_error=largest(as_printed[rows] / excess - gate[rows]),
        output_error=largest(gate @ values - expected),
        printed_output_error=largest((as_printed @ values)[rows] - excess * mean),
        lines_error=largest(lines.mean(0) - gate),
    )


def measure_instance(values: Values) -> Instance:
    """Compare the output of the instance gate with the formula, and with the sentence that swaps the indices."""
    gate, key = instance_gate(), KEYS[1]
    entropy = row_entropy(gate)
    expected = values.mean(0).expand(POSITIONS, -1).clone()
    expected[QUERY] = values[key]
    output = gate @ values
    return Instance(
        rank(gate),
        int((entropy < 1e-9).sum()),
        int(((entropy - np.log(POSITIONS)).abs() < 1e-9).sum()),
        largest(output - expected),
        largest(output[key] - values[QUERY]),
    )


def measure_closed(draws: Draws) -> Closed:
    """Compare the closed gate with the largest entropy there is, and its output with the mean."""
    gate, mean = gates.closed(POSITIONS), draws.values.mean(0)
    return Closed(
        largest(row_entropy(gate) - np.log(POSITIONS)),
        largest(row_entropy(draws.attention)),
        largest(gate @ draws.values - mean),
        largest(instance_gate() @ draws.values - mean),
    )


def measure_inverse(values: Values) -> Inverse:
    """Compare the inverse directional gate, and its output, with instance gates and with the mean over its keys."""
    n, gate, keys = POSITIONS, inverse_gate(), list(KEYS)
    others = torch.arange(n) != QUERY
    mean = values[keys].mean(0)
    instances = torch.stack([gates.instance(n, QUERY, key) for key in keys])
    one_key = gates.inverse_directional(n, QUERY, keys[1:2])
    return Inverse(
        entries=int((gate[QUERY] > 0).sum()),
        row_sum_error=largest(gate[QUERY].sum() - 1),
        ones_row_sum=(gate[QUERY] > 0).double().sum().item(),
        other_rows_error=largest((gate - gates.closed(n))[others]),
        output_error=largest((gate @ values)[QUERY] - mean),
        instance_difference=largest((instance_gate() @ values)[QUERY] - mean),
        instances_error=largest(instances.mean(0) - gate),
        one_key_error=largest(one_key - instance_gate()),
    )


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


@dataclass(frozen=True)
class IdealGates:
    """What the formulas of the gates come to, gate by gate, in maps of so many positions."""

    positions: int
    printed: PrintedGates
    column: Column
    open: Open
    backward: Backward
    forward: Forward
    block: Block
    instance: Instance
    closed: Closed
    mixture: Mixture
    inverse: Inverse
    softmax: Softmax


def measure_ideal_gates() -> IdealGates:
    """Build every gate and hold it, and its output for random values, to the formulas."""
    draws = draw()
    values = draws.values
    return IdealGates(
        POSITIONS,
        printed=measure_printed_gates(),
        column=measure_column(values),
        open=measure_open(values),
        backward=measure_backward(values),
        forward=measure_forward(values),
        block=measure_block(values),
        instance=measure_instance(values),
        closed=measure_closed(draws),
        mixture=measure_mixture(draws),
        inverse=measure_inverse(values),
        softmax=measure_softmax(draws.scores),
    )
