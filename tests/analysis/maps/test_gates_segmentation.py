"""What counts as a block: the evidence that it needs, each bound held from both sides."""

import math

import pytest
import torch

from analysis.maps.gates.segmentation import box_evidence, divergence, find_blocks, find_lines, tabulate

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


@pytest.mark.parametrize(("share", "found"), [(1.001, False), (0.999, True)])
def test_a_block_needs_more_hits_than_smoothing_makes(block, share, found):
    hits, visible, counts = block
    level = 0.05
    need = share * 20 * math.log(16 / 5) / (math.log(N) ** 2 * -math.log(level))
    assert find_blocks(hits, counts, visible, level, need, least_side=2).equal(hits & torch.tensor(found))


@pytest.mark.parametrize(("share", "found"), [(1.001, False), (0.999, True)])
def test_a_run_needs_more_evidence_than_those_of_a_map_of_chance(share, found):
    """Four hits in a column, each one of 16 cells of its row; no two misses in a row, so a step counts for its root."""
    hits = torch.zeros(1, N, N, dtype=torch.bool)
    hits[0, 3:7, 9] = True
    p = 1 / 16
    own = -4 * math.log((p + math.sqrt(p * (4 - 3 * p))) / 2)
    level = N * N / math.exp(own * share)
    line, _ = find_lines(hits, torch.ones(N, N, dtype=torch.bool), level)
    assert line.equal(hits & torch.tensor(found))
