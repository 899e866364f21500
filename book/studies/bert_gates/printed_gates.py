"""The gates as the paper prints them, cell by cell in whole fractions, for every small size and every index.

Nothing here is taken from the library's own gates: a printed matrix is written out from its labels, counted from 1,
and what the three rules make of a pattern is made from the pattern's cells alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from book.lab.mathematics.exact_ranks import exact_rank

SIZES = range(2, 7)
Cells = list[tuple[int, int]]


@dataclass(frozen=True)
class PrintedGates:
    """Counts over all printed gates of these sizes; mappings by the gate's name.

    ``gates`` counts matrices, ``against_rules`` those that the three rules do not make of their cells. ``ranks`` are
    all the ranks that occur. ``points_back`` holds how far the sub-diagonal gates point back, less ``j``.
    ``wrong_outputs`` counts outputs for whole values that are not as printed, ``other_side`` those that would be if
    the left side were as printed, S_P V. ``lines`` counts clusters that are not the mean of their short vertical
    lines, ``printed_lines`` the same with the printed entries; ``instances`` inverse directional gates that are not
    the mean of their instance gates.
    """

    gates: Mapping[str, int]
    against_rules: Mapping[str, int]
    ranks: Mapping[str, list[int]]
    points_back: list[int]
    wrong_outputs: Mapping[str, int]
    other_side: Mapping[str, int]
    lines: int
    printed_lines: int
    instances: int

    @property
    def all(self) -> int:
        """How many gates there are."""
        return sum(self.gates.values())


def uniform(n: int) -> np.ndarray:
    """Return the map whose entries are all 1/n."""
    return np.full((n, n), Fraction(1, n), dtype=object)


def by_rules(n: int, cells: Cells) -> np.ndarray:
    """Make a map from the cells of a pattern, counted from 1, by the paper's three rules.

    Entries of the pattern are as large as they can be and alike, 1/k where k share a row; the others of such a row are
    0; rows without any are uniform.

    >>> by_rules(2, [(1, 1)]).astype(float)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    gate = uniform(n)
    for row in {row for row, _ in cells}:
        columns = [column for each, column in cells if each == row]
        gate[row - 1] = Fraction(0)
        gate[row - 1, [column - 1 for column in columns]] = Fraction(1, len(columns))
    return gate


def written(n: int, cells: Cells, entry: Fraction = Fraction(1)) -> np.ndarray:
    """Write a printed matrix out: the entry in the cells, 0 beside them, and 1/n in the other rows."""
    rows = {row for row, _ in cells}
    return np.array(
        [
            [entry if (r, c) in cells else Fraction(0) if r in rows else Fraction(1, n) for c in range(1, n + 1)]
            for r in range(1, n + 1)
        ],
        dtype=object,
    )


def print_gates(n: int) -> Iterator[tuple[str, np.ndarray, Cells, dict[str, int]]]:
    """Yield every gate of equations (4.1) to (4.13): its name, its matrix as printed, its cells and its labels."""
    places = range(1, n + 1)
    for i in places:
        yield "directional", written(n, cells := [(r, i) for r in places]), cells, {"i": i}
    yield "open", written(n, cells := [(r, r) for r in places]), cells, {}
    for j in places[1:]:  # from (j, 1) down to the last row, and from (1, j) right to the last column
        yield "backward", written(n, cells := [(j + step, 1 + step) for step in range(n - j + 1)]), cells, {"j": j}
        yield "forward", written(n, cells := [(1 + step, j + step) for step in range(n - j + 1)]), cells, {"j": j}
    for k in range(1, n):
        for i, j in np.ndindex(n - k, n - k):
            cells = [(j + 1 + r, i + 1 + c) for r, c in np.ndindex(k + 1, k + 1)]
            yield "cluster", written(n, cells, Fraction(1, k)), cells, {"i": i + 1, "j": j + 1, "k": k}
    for i, j in np.ndindex(n, n):
        yield "instance", written(n, cells := [(j + 1, i + 1)]), cells, {"i": i + 1, "j": j + 1}
    yield "closed", uniform(n), [], {}


def expected_output(name: str, values: np.ndarray, labels: Mapping[str, int]) -> np.ndarray | None:
    """Return the output that the paper prints for a gate; ``None`` for the cluster, whose entries are wrong."""
    n, mean = len(values), values.sum(0) * Fraction(1, len(values))
    output = np.stack([mean] * n)
    if name == "directional":
        output[:] = values[labels["i"] - 1]
    elif name == "open":
        output = values
    elif name == "backward":
        output[labels["j"] - 1 :] = values[: n - labels["j"] + 1]
    elif name == "forward":
        output[: n - labels["j"] + 1] = values[labels["j"] - 1 :]
    elif name == "instance":
        output[labels["j"] - 1] = values[labels["i"] - 1]
    return None if name == "cluster" else output


def measure_printed_gates() -> PrintedGates:
    """Hold every printed gate to the rules and to its printed output."""
    names = ("directional", "open", "backward", "forward", "cluster", "instance", "closed")
    gates, against, wrong = (dict.fromkeys(names, 0) for _ in range(3))
    ranks: dict[str, set[int]] = {name: set() for name in names}
    back, other = set(), {"closed": 0, "inverse directional": 0}
    lines = printed_lines = instances = 0
    for n in SIZES:
        values = draw_values(n)
        for name, gate, cells, labels in print_gates(n):
            gates[name] += 1
            against[name] += not np.array_equal(gate, by_rules(n, cells))
            ranks[name].add(exact_rank([[int(entry * n * labels.get("k", 1)) for entry in row] for row in gate]))
            output = expected_output(name, values, labels)
            wrong[name] += output is not None and not np.array_equal(gate.dot(values), output)
            if name == "backward":
                back |= {row - column - labels["j"] for row, column in cells}
            if name == "instance":
                other["closed"] += np.array_equal(gate.dot(values), expected_output("closed", values, {}))
            if name == "cluster":
                short = [by_rules(n, [cell for cell in cells if cell[1] == c]) for c in {c for _, c in cells}]
                mean = sum(short) * Fraction(1, len(short))
                lines += not np.array_equal(mean, by_rules(n, cells))
                printed_lines += not np.array_equal(mean, gate)
        instances += count_wrong_compositions(n)
        other["inverse directional"] += count_other_side(n, values)
    return PrintedGates(
        gates,
        against,
        {name: sorted(each) for name, each in ranks.items()},
        sorted(back),
        wrong,
        other,
        lines,
        printed_lines,
        instances,
    )


def draw_values(n: int, channels: int = 3) -> np.ndarray:
    """Draw whole values, no two rows alike and none of them the mean of others."""
    return np.random.default_rng(n).integers(-(10**6), 10**6, (n, channels)).astype(object)


def inverse_gates(n: int, row: int = 1) -> Iterator[tuple[np.ndarray, Cells]]:
    """Yield the inverse directional gates of one row, for every set of two keys or more but all, by the rules."""
    for size in range(2, n):
        for keys in combinations(range(1, n + 1), size):
            cells = [(row, key) for key in keys]
            yield by_rules(n, cells), cells


def count_wrong_compositions(n: int) -> int:
    """Count the inverse directional gates that are not the mean of the instance gates of their cells."""
    return sum(
        not np.array_equal(gate, sum(written(n, [cell]) for cell in cells) * Fraction(1, len(cells)))
        for gate, cells in inverse_gates(n)
    )


def count_other_side(n: int, values: np.ndarray) -> int:
    """Count instance gates in the row of an inverse directional one whose output is that of (4.16)."""
    return sum(
        np.array_equal(written(n, [cell]).dot(values), gate.dot(values))
        for gate, cells in inverse_gates(n)
        for cell in cells
    )
