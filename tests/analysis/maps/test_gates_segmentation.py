"""What counts as a block: the evidence that it needs, each bound held from both sides."""

import math

import pytest
import torch

from analysis.maps.gates.segmentation import (
    Segmentation,
    box_evidence,
    divergence,
    divide,
    find_blocks,
    tabulate,
    tally,
)

N = 16


@pytest.fixture
def block():
    """Return hits of 4 by 5 cells in a map of 16 rows, what is visible, and the sums of both."""
    hits = torch.zeros(1, N, N, dtype=torch.bool)
    hits[0, 3:7, 8:13] = True
    visible = torch.ones(N, N, dtype=torch.bool)
    return hits, visible, tabulate(hits, visible)


def evidence(cells: int, share: float) -> float:
    """Return what so many cells, all raised, say against a coin of that share, in nats."""
    return cells * float(divergence(torch.tensor(1.0, dtype=torch.float64), torch.tensor(share, dtype=torch.float64)))


def test_the_evidence_of_a_box_by_hand(block):
    """Of 20 cells all are raised, where each of their rows has 5 of 16."""
    _, _, counts = block
    box = torch.tensor([[0], [3], [7], [8], [13]])
    assert box_evidence(counts, box).item() == pytest.approx(evidence(20, 5 / 16), rel=1e-6)
    assert evidence(20, 5 / 16) == pytest.approx(20 * math.log(16 / 5), rel=1e-6)


@pytest.mark.parametrize(("share", "found"), [(1.001, False), (0.999, True)])
def test_a_block_needs_more_evidence_than_the_boxes_of_a_map_of_chance(block, share, found):
    hits, visible, counts = block
    level = N * N / math.exp(evidence(20, 5 / 16) * share)
    assert find_blocks(hits, counts, visible, level, 0.0, least_side=2).equal(hits & torch.tensor(found))


def test_the_sums_from_the_corner_on_cell_by_cell():
    visible = torch.ones(4, 4, dtype=torch.bool).tril()
    raised = torch.tensor([[[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]]]).bool()
    share = [0.999, 0.25, 2 / 3, 0.25]  # of each row's cells, not below one of four
    found = tabulate(raised, visible)
    assert found.shape == (3, 1, 5, 5)
    for bottom in range(5):
        for right in range(5):
            cells = [(q, k) for q in range(bottom) for k in range(min(right, q + 1))]
            due = [len(cells), sum(bool(raised[0, q, k]) for q, k in cells), sum(share[q] for q, _ in cells)]
            assert found[:, 0, bottom, right].tolist() == pytest.approx(due)


def cells(n, *places):
    mask = torch.zeros(1, n, n, dtype=torch.bool)
    for q, k in places:
        mask[0, q, k] = True
    return mask


def test_each_cell_is_divided_among_what_covers_it():
    n = 5
    maps = torch.full((1, n, n), 0.1, dtype=torch.float64)
    block = cells(n, *((q, k) for q in (1, 2) for k in (1, 2, 3)))
    column, diagonal = cells(n, *((q, 2) for q in range(n))), cells(n, (0, 0), (3, 3), (4, 4))
    maps[column], maps[diagonal] = 0.3, 0.35
    maps[0, 1:3, 1], maps[0, 1:3, 3], maps[0, 1:3, 2] = 0.4, 0.4, 0.7
    maps[0, 0, 4], maps[0, 4, 0], maps[0, 3, 4] = 0.9, 0.5, 0.25
    segments = Segmentation(block, column, diagonal, cells(n, (0, 4)), cells(n, (4, 0)), torch.zeros(1, 2 * n + 1))
    found = divide(maps, torch.ones(n, n, dtype=torch.bool), segments)
    due = {gate: torch.zeros(n, n, dtype=torch.float64) for gate in (0, 1, 4, 5, 6, 7, 8)}
    due[7] += 0.1
    due[0][[0, 3, 4], 2], due[0][1:3, 2] = 0.2, 0.3  # on the block what goes beyond the block's level of 0.3
    due[4][1:3, 1:4] = 0.3
    due[1][[0, 3, 4], [0, 3, 4]] = 0.25
    due[5][0, 4], due[6][4, 0], due[8][3, 4] = 0.8, 0.4, 0.15
    assert found.keys() == due.keys()
    for gate, part in due.items():
        torch.testing.assert_close(found[gate][0], part)


def test_parts_are_added_up_by_hand():
    """In a causal map of three rows the first says nothing, and each of the others counts half."""
    parts = {gate: torch.zeros(1, 3, 3, dtype=torch.float64) for gate in (0, 1, 4, 5, 6, 7, 8)}
    for gate, places in {
        0: {(0, 0): 9.0, (1, 0): 0.4, (2, 0): 0.1},
        1: {(1, 0): 0.2, (1, 1): 0.15, (2, 1): 0.2},
        4: {(2, 2): 0.25},
        5: {(1, 1): 0.05},
        6: {(2, 0): 0.05},
        7: {(1, 0): 0.1, (1, 1): 0.05, (2, 0): 0.05, (2, 1): 0.05, (2, 2): 0.1},
        8: {(1, 1): 0.05, (2, 0): 0.2},
    }.items():
        for (q, k), weight in places.items():
            parts[gate][0, q, k] = weight
    nothing, runs = cells(3), torch.arange(7.0)[None]
    found = tally(parts, torch.ones(3, 3).tril().bool(), Segmentation(*[nothing] * 5, runs))
    due = [0.25, 0.075, 0.2, 0.0, 0.125, 0.025, 0.025, 0.175, 0.125]  # column, self, backward, forward, block, ...
    assert found["scores"][0].tolist() == pytest.approx(due)
    assert found["columns"][0].tolist() == pytest.approx([0.25, 0, 0])
    assert found["offsets"][0].tolist() == pytest.approx([0, 0.2, 0.075, 0, 0])
    assert found["runs"][0].tolist() == [1, 2, 3, 4, 5]
    assert found["rows"][0].tolist() == pytest.approx([0, 0, 0.025])
    assert found["clustered"][0].tolist() == pytest.approx([0, 0, 0.125])
    torch.testing.assert_close(found["residual"][0], parts[8][0] / 2)
    assert found["cells"][0].tolist() == [[7, -1, -1], [0, 1, -1], [8, 2, 4]]
    assert found["owned"][0].item() == pytest.approx(2 / 3)
