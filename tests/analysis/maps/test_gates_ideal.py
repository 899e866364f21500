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
RANKS = {
    "directional": 1,
    "open": 9,
    "backward": 8,
    "forward": 8,
    "cluster": 2,
    "instance": 2,
    "inverse directional": 2,
    "closed": 1,
}


@pytest.fixture
def values():
    return torch.randn(N, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", GATES)
def test_rows_obey_the_three_rules(name):
    gate = GATES[name]
    assert torch.allclose(gate.sum(-1), torch.ones(N, dtype=gate.dtype))
    for row in gate:
        positive = row[row > 0]
        assert torch.allclose(positive, positive[0].expand_as(positive))


@pytest.mark.parametrize("name", GATES)
def test_rank(name):
    assert torch.linalg.matrix_rank(GATES[name]) == RANKS[name]


def test_entropy_runs_from_0_to_log_n():
    assert torch.equal(entropy.row_entropy(GATES["open"]), torch.zeros(N, dtype=torch.float64))
    assert torch.allclose(entropy.row_entropy(GATES["closed"]), torch.full((N,), math.log(N), dtype=torch.float64))
    assert math.isclose(entropy.row_entropy(GATES["cluster"])[1].item(), math.log(4))


def test_outputs(values):
    mean = values.mean(0)
    assert torch.allclose(GATES["directional"] @ values, values[4].expand(N, -1))
    assert torch.equal(GATES["open"] @ values, values)
    back = GATES["backward"] @ values
    assert torch.equal(back[2:], values[:-2])
    assert torch.allclose(back[:2], mean.expand(2, -1))
    ahead = GATES["forward"] @ values
    assert torch.equal(ahead[:-2], values[2:])
    assert torch.allclose(ahead[-2:], mean.expand(2, -1))
    assert torch.allclose((GATES["cluster"] @ values)[1:5], values[3:7].mean(0).expand(4, -1))
    assert torch.allclose((GATES["instance"] @ values)[2], values[6])
    assert torch.allclose((GATES["inverse directional"] @ values)[3], values[[0, 5, 8]].mean(0))


def test_transposed_pairs():
    """Queries and keys are not confused: a backward gate reversed is a forward gate, not its own mirror."""
    assert torch.equal(GATES["backward"].flip(0, 1), GATES["forward"])
    assert not torch.equal(GATES["backward"], GATES["forward"])
    assert torch.equal(GATES["directional"].flip(0, 1), ideal.directional(N, N - 1 - 4))
    assert GATES["instance"][2, 6] == 1


def test_inverse_directional_is_the_mean_of_its_instances():
    mean = torch.stack([ideal.instance(N, 3, key) for key in (0, 5, 8)]).mean(0)
    assert torch.allclose(GATES["inverse directional"], mean)


def test_cluster_is_a_mean_of_short_vertical_lines():
    lines = torch.stack([ideal.cluster(N, range(1, 5), range(key, key + 1)) for key in range(3, 7)])
    assert torch.allclose(GATES["cluster"], lines.mean(0))


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


def test_a_sum_of_gates_with_weights_of_each_row_has_the_sum_of_their_outputs(values):
    parts = torch.stack([GATES["directional"], GATES["cluster"], GATES["open"]])
    weights = torch.rand(3, N, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = weights / weights.sum(0)
    mixture = (weights * parts).sum(0)
    torch.testing.assert_close(mixture.sum(-1), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(mixture @ values, (weights * (parts @ values)).sum(0))
    of_parts = (weights[..., 0] * entropy.row_entropy(parts)).sum(0)
    assert (entropy.row_entropy(mixture) >= of_parts - 1e-12).all(), "a mixture's entropy is at least the parts' mean"
