"""The ideal gates: rules, ranks, entropies, outputs, and where the printed labels fail."""

import math
from fractions import Fraction

import pytest
import torch

from analysis.maps import entropy
from analysis.maps.gates import ideal

N = 9
GATES = {
    "directional": ideal.directional(N, 4),
    "open": ideal.open_gate(N),
    "backward": ideal.backward(N, 2),
    "forward": ideal.forward(N, 2),
    "cluster": ideal.cluster(N, range(1, 5), range(3, 7)),
    "instance": ideal.instance(N, 2, 6),
    "inverse directional": ideal.inverse_directional(N, 3, [0, 5, 8]),
    "closed": ideal.closed(N),
}


def test_entropy_runs_from_0_to_log_n():
    assert torch.equal(entropy.row_entropy(GATES["open"]), torch.zeros(N, dtype=torch.float64))
    assert torch.allclose(entropy.row_entropy(GATES["closed"]), torch.full((N,), math.log(N), dtype=torch.float64))
    assert math.isclose(entropy.row_entropy(GATES["cluster"])[1].item(), math.log(4))


def test_causal_gates_never_see_the_future():
    for gate in (
        ideal.closed(N, causal=True),
        ideal.directional(N, 3, causal=True),
        ideal.backward(N, 2, causal=True),
        ideal.cluster(N, range(2, 6), range(1, 4), causal=True),
        ideal.instance(N, 5, 1, causal=True),
    ):
        assert torch.equal(gate, gate.tril())
        assert torch.allclose(gate.sum(-1), torch.ones(N, dtype=gate.dtype))


def test_printed_labels_are_no_diagonal():
    n = 12
    for j in range(2, n):
        (top, left), (bottom, right) = ideal.printed_ends("4.5", n, j)
        assert bottom - top != right - left
        assert bottom - top == (n - j + 1) - left
        (top, left), (bottom, right) = ideal.printed_ends("4.7", n, j)
        assert (bottom - top == right - left) == (2 * j == n + 1)
        assert (n - j + 1) - top == right - left


def test_printed_block_rows_do_not_sum_to_one():
    block = ideal.printed_block(10, 3, 2, 4)
    assert torch.allclose(block[1:6].sum(-1), torch.tensor(5 / 4, dtype=block.dtype))
    inside, proper = block == 1 / 4, ideal.cluster(10, range(1, 6), range(2, 7))
    assert torch.allclose(proper[inside] * 5 / 4, block[inside])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ideal.closed(0), "n must be"),
        (lambda: ideal.directional(4, 4), "column must lie in 0..3, got 4"),
        (lambda: ideal.backward(4, 0), "offset must lie in 1..3"),
        (lambda: ideal.forward(4, 4), "offset must lie in 1..3"),
        (lambda: ideal.cluster(4, range(0), range(2)), "queries must be a non-empty range"),
        (lambda: ideal.cluster(4, range(2), range(5)), "keys must be a non-empty range"),
        (lambda: ideal.inverse_directional(4, 0, [1, 1]), "distinct"),
        (lambda: ideal.instance(4, 0, 2, causal=True), "cannot see"),
        (lambda: ideal.printed_ends("4.6", 4, 2), "equation must be one of"),
        (lambda: ideal.printed_block(4, 0, 1, 2), "i"),
        (lambda: ideal.printed_block(4, 1, 3, 2), "j"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def by_rules(n, cells):
    """Make a map in whole fractions from the cells ``(row, column)`` of a pattern alone, by the paper's three rules."""
    in_row = {row: [column for other, column in cells if other == row] for row, _ in cells}
    return [
        [Fraction(column in in_row[row], len(in_row[row])) if row in in_row else Fraction(1, n) for column in range(n)]
        for row in range(n)
    ]


def every_gate(n):
    """Yield every gate of ``n`` positions, with the cells of its pattern."""
    places = range(n)
    for i in places:
        yield ideal.directional(n, i), [(row, i) for row in places]
    yield ideal.open_gate(n), [(row, row) for row in places]
    for offset in places[1:]:
        yield ideal.backward(n, offset), [(row, row - offset) for row in places[offset:]]
        yield ideal.forward(n, offset), [(row, row + offset) for row in places[:-offset]]
    for side in places[1:-1]:
        for i in places[: n - side]:
            for j in places[: n - side]:
                queries, keys = range(j, j + side + 1), range(i, i + side + 1)
                yield ideal.cluster(n, queries, keys), [(row, key) for row in queries for key in keys]
    for i in places:
        for j in places:
            yield ideal.instance(n, j, i), [(j, i)]
    for keys in (range(size) for size in places[2:]):
        yield ideal.inverse_directional(n, n - 1, list(keys)), [(n - 1, key) for key in keys]
    yield ideal.closed(n), []


@pytest.mark.parametrize("n", [2, 3, 5])
def test_every_gate_is_what_the_rules_make_of_its_cells(n):
    for gate, cells in every_gate(n):
        due = torch.tensor([[float(entry) for entry in row] for row in by_rules(n, cells)], dtype=torch.float64)
        torch.testing.assert_close(gate, due, atol=1e-15, rtol=0)
