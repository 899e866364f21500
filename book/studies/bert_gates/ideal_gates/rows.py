"""Gates of a few rows or of none: the cluster, the instance, the inverse directional and the closed gate."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.maps import gates
from analysis.maps.entropy import row_entropy
from book.studies.bert_gates.ideal_gates.cases import (
    BLOCK_K,
    BLOCK_KEYS,
    BLOCK_QUERIES,
    KEYS,
    POSITIONS,
    QUERY,
    Draws,
    Values,
    block_gate,
    instance_gate,
    inverse_gate,
    rank,
)
from book.studies.shared.errors import largest


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
