"""What counts as a block: the evidence that it needs, each bound held from both sides."""

import math

import pytest
import torch

from analysis.maps.gates.segmentation import (
    Segmentation,
    background,
    box_evidence,
    cross_share,
    divergence,
    divide,
    find_blocks,
    find_lines,
    tabulate,
    tall,
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


def test_a_stripe_runs_from_end_to_end_over_three_quarters_of_its_column():
    block = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 0, 1, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 0]]).bool()[None]
    found = tall(block, torch.ones(4, 5, dtype=torch.bool))
    assert found[0].any(0).tolist() == [True, False, False, True, False]  # 3 of 4; from row 1 on; 2 of 4; all; none
    assert found.equal(block & torch.tensor([True, False, False, True, False]))
    causal = tall(torch.ones(1, 4, 4).tril().bool(), torch.ones(4, 4).tril().bool())
    assert causal[0].any(0).all()  # a column is as long as it is visible


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


@pytest.mark.parametrize("causal", [False, True])
def test_the_level_of_a_row_and_its_spread_by_quantiles(causal):
    n = 12
    maps = torch.randn(2, n, n, generator=torch.Generator().manual_seed(3), dtype=torch.float64).mul(0.7).exp()
    visible = torch.ones(n, n, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    base, noise, spread = background(maps, visible)
    for each in range(2):
        quantiles, own = [], []
        for q in range(n):
            row = [w for k, w in enumerate(maps[each, q].tolist()) if visible[q, k]]
            half = lower_median(row)
            upper = lower_median([w for w in row if w > half] or [half])
            quarter = lower_median([w for w in row if w < half] or [half])
            eighth = lower_median([w for w in row if w < quarter] or [quarter])
            upper, half, quarter, eighth = map(math.log, (upper, half, quarter, eighth))
            quantiles.append((half, quarter))
            least = min((half - quarter) / 0.674, (upper - half) / 0.674, (quarter - eighth) / (1.150 - 0.674))
            own.append(least / (1 - 1.6 / math.sqrt(max(len(row), 6))))
        typical = lower_median(own)
        for q, (half, quarter) in enumerate(quantiles):
            count = q + 1 if causal else n
            pooled = (count * own[q] + 32 * typical) / (count + 32)
            assert spread[each, q].item() == pytest.approx(own[q])
            assert noise[each, q].item() == pytest.approx(pooled)
            assert base[each, q].item() == pytest.approx(math.exp(min(half, quarter + 0.674 * pooled)))


def cells(n, *places):
    mask = torch.zeros(1, n, n, dtype=torch.bool)
    for q, k in places:
        mask[0, q, k] = True
    return mask


def test_a_crossing_is_shared_by_the_levels_of_its_lines_elsewhere():
    column, diagonal = cells(4, *((q, 1) for q in range(4))), cells(4, *((q, q) for q in range(4)))
    rest = torch.zeros(1, 4, 4, dtype=torch.float64)
    rest[0, [0, 2, 3], 1] = torch.tensor([2.0, 4.0, 6.0]).double()  # 4 on average
    rest[0, [0, 2, 3], [0, 2, 3]] = torch.tensor([1.0, 2.0, 6.0]).double()  # 3 on average
    rest[0, 1, 1] = 50
    due = torch.ones(4, 4, dtype=torch.float64)
    due[range(4), range(4)] = torch.tensor([0, 4 / 7, 0, 0]).double()
    torch.testing.assert_close(cross_share(rest, column, diagonal)[0], due)


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


def test_a_forward_diagonal_has_its_own_name_and_score():
    parts = {gate: torch.zeros(1, 3, 3, dtype=torch.float64) for gate in (0, 1, 4, 5, 6, 7, 8)}
    parts[1][0, 0, 2], parts[1][0, 1, 2] = 0.6, 0.9
    found = tally(parts, torch.ones(3, 3).bool(), Segmentation(*[cells(3)] * 5, torch.zeros(1, 7)))
    assert found["scores"][0].tolist() == pytest.approx([0, 0, 0, 0.5, 0, 0, 0, 0, 0.5])
    assert found["offsets"][0].tolist() == pytest.approx([0, 0, 0, 0.3, 0.2])
    assert found["cells"][0].tolist() == [[7, 7, 3], [7, 7, 3], [7, 7, 7]]
    assert found["owned"][0].item() == pytest.approx(2 / 3)


def test_two_coins_differ_by_their_logarithms_and_certain_ones_by_no_more_than_a_millionth_allows():
    def of(share, expected):
        return divergence(torch.tensor(share).double(), torch.tensor(expected).double()).item()

    assert of(0.25, 0.5) == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert of(0.5, 1.0) == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(0.5 / 1e-6), rel=1e-5)
    assert of(0.5, 0.0) == of(0.5, 1e-6) == pytest.approx(of(0.5, 1.0))
    assert of(1.0, 1.0) == pytest.approx(1e-6, rel=1e-3)
