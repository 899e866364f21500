r"""The steps of the gate reader: background, hits, blocks, lines, and who gets what. Batches ``(map, query, key)``.

Only ``read`` is for others (through ``reader.read_gates``). Lines and blocks are held against one null: the weights of
each row are at random places of the row, independently of other rows; the weights themselves may be anything. Where a
cell stands out depends on the weights alone, so in row ``q`` a share :math:`p_q` of the cells does, at random places.

* Lines have a bound that is proved for any :math:`p_q` (:func:`find_lines`).
* A box of ``m`` cells with a share ``f`` of hits has at most the probability :math:`e^{-m\,KL(f\|p)}` (Hoeffding 1963,
  theorem 1; with rows whose places are exchanged, section 6). How many boxes there are is counted by simulation only
  (:func:`box_evidence`).
* Points move with their row, so this null says nothing of them; they have an estimate of their own
  (:mod:`analysis.maps.gates.points`).
"""

import math
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from analysis.maps.entropy import kullback_leibler
from analysis.maps.gates.points import find_points, standardise
from analysis.maps.gates.shear import median_of_3, run_ends, skew, unskew

ABOVE = 1.5  # a cell stands out above this many standard deviations (of log weight) over its row's middle
LEAST = 0.05  # ... and by this part of a uniform weight
RAISED = 0.5  # ... and is raised, as most cells of a block must be, above this many
COARSE = 4  # step of the second smoothing
CALM = {1: (0.75, 1.17), COARSE: (0.4, 5.0)}  # by step: threshold for smoothed maps; evidence that a block needs
WHOLE = 0.9  # a column that stands out in this share of its rows runs from end to end
COVERED = 0.75  # ... and so does one that a block covers from end to end with this share of the cells
SHARE = 1 / 3  # a line is persistent if at least this share of its cells stands out
SMALL = 1.6  # the spread estimated from n cells is too small by the factor 1 - SMALL / sqrt(n), on lognormal rows
ENOUGH = 16  # keys a row must see for its spread, read off its lower eighth, to say what a point is
POOL = 32  # the map's typical spread counts as much as this many cells of the row
TINY = 1e-30  # a weight below is as good as none; far below what softmax writes, so that tails keep their lengths
NOISELESS = 1e-9  # a spread below is none
QUARTER, EIGHTH = 0.674, 1.150  # normal deviates of the lower quartile and the lower eighth


@dataclass(frozen=True)
class Segmentation:
    """Which cells belong to what: boolean ``(map, query, key)``; and the longest run on each diagonal."""

    block: Tensor
    column: Tensor
    diagonal: Tensor
    alone: Tensor
    together: Tensor
    runs: Tensor

    @property
    def lines(self) -> Tensor:
        """Cells on a column or a diagonal."""
        return self.column | self.diagonal


def read(maps: Tensor, causal: bool, level: float) -> dict[str, Tensor]:
    """Read a batch of maps ``(map, query, key)``; the keys are the fields of ``GateReading``."""
    n = maps.shape[-1]
    visible = torch.ones(n, n, dtype=torch.bool, device=maps.device)
    visible = visible.tril() if causal else visible
    # What stands out of its row's background, and what is at least raised above it.
    base, noise, spread = background(maps, visible)
    least = LEAST / visible.sum(-1)[:, None].to(maps)
    hits = visible & (maps > torch.maximum(base * torch.exp(ABOVE * noise), base + least))
    counts = tabulate(visible & (maps > torch.maximum(base * torch.exp(RAISED * noise), base + least)), visible)

    def stand_out(smooth: Tensor, step: int) -> Tensor:
        threshold = torch.maximum(torch.exp(CALM[step][0] * noise), 1 + least / base)
        return find_blocks(visible & (smooth > threshold), counts, visible, level, CALM[step][1], least_side=2 + step)

    # Blocks survive a median over neighbouring cells, and single lines don't. Large blocks are sought on a coarse map.
    along = median_of_3(torch.where(visible, maps / base, 1), axes=(-1,))  # a row's neighbours have other levels
    smooth = median_of_3(along, axes=(-2,))
    block = stand_out(smooth, 1)
    if n >= 4 * COARSE:
        coarse = median_of_3(smooth, COARSE)
        large = stand_out(coarse, COARSE)
        block, smooth = block | large, torch.where(large, coarse, smooth)
    smooth = base * torch.maximum(smooth, along)  # what stands out of a block does so in its own row
    # Lines: columns first, then diagonals, which are columns of the sheared map.
    stripe = tall(block, visible)  # columns side by side
    block = block & ~stripe
    whole = hits.sum(-2, keepdim=True) >= WHOLE * visible.sum(-2)  # a block lies over such a column, if at all
    proud = hits & (maps > torch.maximum(smooth * torch.exp(ABOVE * noise), smooth + least))
    sharp = hits & (~block | whole | proud)
    column = find_lines(sharp, visible, level)[0] | stripe
    slanted = sharp & (~stripe | proud)  # a stripe is full of diagonals
    sheared, runs = find_lines(skew(slanted), skew(visible), level)
    diagonal = unskew(sheared)
    # Blocks lose what lines explain.
    plain = block & ~column & ~diagonal  # a crossing of lines looks like a small block: it needs plain cells next to it
    block = plain | (block & (plain.sum(-1, keepdim=True) >= 2))
    # Single cells: only where neither a line nor a block lies.
    free = visible & ~block & ~column & ~diagonal
    wide = visible.sum(-1) >= min(ENOUGH, n)  # early rows of causal maps see too few keys
    deviates, doubt = standardise(maps.clamp_min(TINY), free, spread.clamp_min(NOISELESS), wide, level)
    eligible = free & wide[:, None] & (maps > base + 10 * least)
    alone, together = find_points(deviates, eligible, level, doubt)
    segments = Segmentation(block, column, diagonal, alone, together, runs)
    return tally(divide(maps, visible, segments), visible, segments)


def background(maps: Tensor, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each row's middle level and the spread of its log weights, as noise alone would have them.

    The spread is the smallest of three estimates from neighbouring quantiles, so neither a pattern on up to three
    quarters of the row nor a long tail towards zero counts as noise. It comes twice: drawn towards the map's typical
    spread, and the row's own.
    """
    weights = maps.masked_fill(~visible, math.nan)
    half = weights.nanmedian(-1, keepdim=True).values

    def middle(part: Tensor, otherwise: Tensor) -> Tensor:
        median = torch.where(part, weights, math.nan).nanmedian(-1, keepdim=True).values
        return torch.where(median.isnan(), otherwise, median)

    upper, quarter = middle(weights > half, half), middle(weights < half, half)
    eighth = middle(weights < quarter, quarter)
    upper, half, quarter, eighth = (value.clamp_min(TINY).log() for value in (upper, half, quarter, eighth))
    spread = torch.minimum(half - quarter, upper - half) / QUARTER
    noise = torch.minimum(spread, (quarter - eighth) / (EIGHTH - QUARTER))
    count = visible.sum(-1)[:, None].to(maps)
    own = noise / (1 - SMALL * count.clamp_min(6).rsqrt())
    noise = (count * own + POOL * own.median(-2, keepdim=True).values) / (count + POOL)
    return torch.minimum(half, quarter + QUARTER * noise).exp(), noise, own


def find_lines(hits: Tensor, visible: Tensor, level: float) -> tuple[Tensor, Tensor]:
    r"""Find vertical lines: cells on persistent columns or on runs longer than chance makes; and the longest runs.

    Single gaps in a run are bridged. Give sheared maps to find diagonals.

    **Guarantee.** Let the hits of each row be at random places of it, independently of the other rows, with
    the share :math:`p_q` of hits in row ``q``. Then at most a share ``level`` of maps holds a run, and at most a
    quarter of ``level`` a persistent column (sheared: half of it, since there are twice as many lines).

    **Proof.** In one line the hits of different rows are independent, with probabilities :math:`p_q`. A run that begins
    in row ``s`` counts only if it has :math:`m_s` cells or more (:func:`shortest_run`). Then row ``s`` is a hit, and no
    two of its first :math:`m_s` rows that are neighbours are both missed, which has at most the probability
    :math:`\mathtt{level}/n^2`; and a run can begin in at most :math:`n^2` cells. A line of ``m`` cells with a share
    ``f`` of hits has at most the probability :math:`e^{-m\,KL(f\|\bar p)}`, :math:`\bar p` the mean of its
    :math:`p_q` (Hoeffding 1963, theorem 1, for unequal :math:`p_q` too), and has to beat
    :math:`\mathtt{level}/4n`. ∎

    A run has to pass a second test, which can only take runs away: :math:`\prod_q \lambda(p_q)` of its rows must be
    below :math:`\mathtt{level}/n^2` as well, with the rate
    :math:`\lambda(p) = \bigl(p + \sqrt{p(4-3p)}\bigr)/2` at which runs in rows of one ``p`` become rarer. It asks more
    of short runs. For rows whose ``p`` differ it is not a bound, so it is not enough alone.
    """
    # Persistent columns: hits in far more rows than their rates let one expect.
    length = visible.sum(-2)
    n = visible.shape[-2]
    keys = visible.sum(-1).clamp_min(1)
    rates = (hits.sum(-1) / keys).clamp_min(1 / n)
    p = rates.clamp_max(0.999)  # (map, query)
    share = hits.sum(-2) / length.clamp_min(1)
    expected = (p[..., None] * visible).sum(-2) / length.clamp_min(1)
    chance = length * divergence(share, expected)
    persistent = (share >= SHARE) & (share > expected) & (chance >= math.log(4 * n / level)) & (hits.sum(-2) >= 3)

    # Runs: bridge single gaps, then ask of each run that it is longer than chance makes in rows of these rates.
    bridged = hits.clone()
    bridged[..., 1:-1, :] |= hits[..., :-2, :] & hits[..., 2:, :] & visible[1:-1]
    before, after = run_ends(bridged, -2)
    first, end = (before + 1).long().clamp_max(n - 1), after.long()
    along = (*p.shape, hits.shape[-1])
    enough = end - first >= shortest_run(rates, level / n**2)[..., None].expand(along).gather(-2, first)
    # The second test: the sum of -log lambda(p) over the run's rows, as a difference of two cumulative sums.
    cost = torch.zeros(*p.shape[:-1], n + 1, dtype=p.dtype, device=p.device)
    cost[..., 1:] = -((p + (p * (4 - 3 * p)).sqrt()) / 2).log().cumsum(-1)
    cost = cost[..., None].expand(*cost.shape, hits.shape[-1])
    run = bridged & enough & (cost.gather(-2, end) - cost.gather(-2, first) >= math.log(n * n / level))
    line = run | (hits & persistent[..., None, :])
    longest = torch.where(line, after - before - 1, 0).amax(-2)
    return line, longest


def shortest_run(rates: Tensor, rare: float) -> Tensor:
    r"""Return for each row how many cells a run from it on must have to be rarer than ``rare``; all + 1 if none is.

    With hits of probability :math:`p_q` in row ``q``, independent, :math:`h_q` and :math:`g_q` are the probabilities
    that row ``s`` is a hit, that no two neighbours of the rows ``s..q`` are both missed, and that row ``q`` is a hit or
    is missed. They begin with :math:`h_s = p_s`, :math:`g_s = 0`, and

    .. math::  h_{q+1} = p_{q+1} (h_q + g_q), \qquad g_{q+1} = (1 - p_{q+1})\, h_q

    exactly, whatever the :math:`p_q`; :math:`h_q + g_q` falls with ``q``.

    Examples
    --------
    >>> shortest_run(torch.tensor([0.5] * 4), 0.4)  # from a row on: 1/2, 1/2, 3/8, 5/16
    tensor([3, 3, 5, 5])
    >>> shortest_run(torch.tensor([1.0, 0.1] * 2), 0.5)  # every second row bridges
    tensor([5, 1, 5, 1])
    """
    n = rates.shape[-1]
    hit, missed = rates.double(), torch.zeros_like(rates, dtype=torch.float64)
    shortest = torch.full(rates.shape, n + 1, device=rates.device)
    for cells in range(1, n + 1):
        begins = shortest[..., : n + 1 - cells]
        begins[(begins > n) & (hit + missed <= rare)] = cells
        if cells == n or (begins <= n).all():
            break
        p = rates[..., cells:].double()
        hit, missed = p * (hit + missed)[..., :-1], (1 - p) * hit[..., :-1]
    return shortest


def divergence(share: Tensor, expected: Tensor) -> Tensor:
    """Kullback-Leibler divergence of two coins, in nats.

    >>> divergence(torch.tensor(1.0), torch.tensor(0.5))
    tensor(0.6931)
    """
    expected = expected.clamp(1e-6, 1 - 1e-6)
    return kullback_leibler(*(torch.stack([heads, 1 - heads], -1) for heads in (share, expected)))


def find_blocks(hits: Tensor, counts: Tensor, visible: Tensor, level: float, need: float, *, least_side: int) -> Tensor:
    """Find blocks among the hits of a smoothed map: large enough for chance, and not a band of long diagonals.

    Smoothing makes neighbours alike, so the evidence that its hits must give grows with ``ln(n)**2``, as on ``TUNING``.
    That is not a test, since how alike depends on the noise. The test is on the map itself, whose raised cells
    ``counts`` has (:func:`tabulate`): the box that a cell's runs span holds more of them than rows with their weights
    at random places put into any box of the map.
    """
    n = visible.shape[-1]
    left, right = run_ends(hits, -1)
    above, below = run_ends(hits, -2)
    wide, high = (right - left - 1).int(), (below - above - 1).int()  # their product does not fit 16 bits
    start, end = run_ends(skew(hits), -2)
    long = unskew(end - start - 1)
    p = (hits.sum(-1, keepdim=True) / visible.sum(-1)[:, None]).clamp(1 / n, 0.999)
    unlikely = wide * high * -p.log() >= need * math.log(n) ** 2 * -math.log(level)
    large = (wide >= least_side) & (high >= least_side)
    block = hits & large & unlikely & (long <= 2 * torch.maximum(wide, high))
    cells = block.nonzero(as_tuple=True)
    boxes = torch.stack([cells[0], *(end[cells].long() for end in (above + 1, below, left + 1, right))])
    block[cells] = box_evidence(counts, boxes) >= math.log(n * n / level)
    return block


def tabulate(raised: Tensor, visible: Tensor) -> Tensor:
    """Sum from the corner ``(0, 0)`` on: visible cells, raised ones, and how many of these chance puts there.

    Shape ``(3, map, query + 1, key + 1)``, each sum over the rows and keys before its index.
    """
    n = visible.shape[-1]
    chance = (raised.sum(-1, keepdim=True) / visible.sum(-1)[:, None]).clamp(1 / n, 0.999)
    cells = torch.stack([visible.expand(raised.shape).double(), raised.double(), chance.double() * visible])
    return torch.nn.functional.pad(cells.cumsum(-1).cumsum(-2), (1, 0, 1, 0))


def box_evidence(counts: Tensor, boxes: Tensor) -> Tensor:
    r"""Return :math:`m\,KL(f\|p)`, in nats, of boxes ``(5, box)``.

    A box is a map, its first row and the one after its last, its first key and the one after its last. Of the ``m``
    visible cells of a box a share ``f`` is raised, where rows with their weights at random places have the share ``p``
    on average; 0 where that is no fewer. Of all boxes of a map of such rows the largest evidence was below
    :math:`\ln(n^2/\mathtt{level})` in a share ``1 - level`` of draws or more wherever it was simulated
    (``test_boxes_of_random_cells``). That is not a proof: the bound over all :math:`n^4/4` boxes is far above, since
    boxes that overlap say the same.

    >>> raised = torch.tensor([[[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]]).bool()
    >>> counts = tabulate(raised, torch.ones(3, 4).bool())
    >>> box = torch.tensor([[0], [0], [2], [0], [2]])  # four cells, each at even odds
    >>> box_evidence(counts, box) / math.log(2)
    tensor([4.], dtype=torch.float64)
    """
    each, top, bottom, left, right = boxes
    size, raised, expected = (
        counts[:, each, bottom, right]
        - counts[:, each, top, right]
        - counts[:, each, bottom, left]
        + counts[:, each, top, left]
    )
    share, expected = raised / size.clamp_min(1), expected / size.clamp_min(1)
    return torch.where(share > expected, size * divergence(share, expected), 0)


def tall(block: Tensor, visible: Tensor) -> Tensor:
    """Mark the block cells of columns that are covered from end to end, gaps allowed: those are lines.

    >>> tall(torch.tensor([[[1, 0], [1, 0], [1, 0], [1, 1]]]).bool(),
    ...      torch.ones(4, 2).bool())[0].any(0)
    tensor([ True, False])
    """
    length = visible.sum(-2)
    first = block.float().argmax(-2)
    last = block.shape[-2] - 1 - block.flip(-2).float().argmax(-2)
    whole = (last - first + 1 >= WHOLE * length) & (block.sum(-2) >= COVERED * length)
    return block & whole[..., None, :]


def divide(maps: Tensor, visible: Tensor, segments: Segmentation) -> dict[int, Tensor]:
    """Divide each cell's weight among the structures that cover it; keys are indices of ``GATES``, lines aside.

    The background is taken again, from the cells that nothing took. Where a line crosses a block, the block gets its
    level next to the line; where a column crosses a diagonal, each gets a share by its level elsewhere.
    """
    # The background: the median of what no structure covers.
    structure = segments.block | segments.lines | segments.alone | segments.together
    weight = torch.where(visible, maps, 0)
    base = torch.where(visible & ~structure, maps, math.nan).nanmedian(-1, keepdim=True).values.nan_to_num(0.0)
    ground = torch.minimum(weight, base)
    excess = weight - ground

    # A block gets its own level where a line crosses it; the lines get the rest.
    plain = torch.where(segments.block & ~segments.lines, excess, math.nan).nanmedian(-1, keepdim=True).values
    beside = torch.minimum(excess, plain.nan_to_num(0.0))
    in_block = torch.where(segments.block, torch.where(segments.lines, beside, excess), 0)
    rest = excess - in_block
    by_column = torch.where(segments.column, rest * cross_share(rest, segments.column, segments.diagonal), 0)
    by_diagonal = torch.where(segments.diagonal, rest - by_column, 0)
    loose = torch.where(structure, 0, excess)
    return {
        0: by_column,
        1: by_diagonal,
        4: in_block,
        5: torch.where(segments.alone, rest, 0),
        6: torch.where(segments.together, rest, 0),
        7: ground,
        8: loose,
    }


def tally(parts: dict[int, Tensor], visible: Tensor, segments: Segmentation) -> dict[str, Tensor]:
    """Add the parts up to scores, columns, offsets and rows, and name each cell after its largest part."""
    rows = (visible.sum(-1) > 1).to(parts[0])[:, None]  # a row that sees one key says nothing
    scale = rows / rows.sum()
    parts = {gate: part * scale for gate, part in parts.items()}
    n = visible.shape[-1]
    # Scores: a diagonal counts as open, backward or forward by its offset.
    offsets = skew(parts[1]).sum(-2)[..., 1:-1]
    total = {gate: part.sum((-2, -1)) for gate, part in parts.items()}
    lines = offsets[..., n - 1], offsets[..., : n - 1].sum(-1), offsets[..., n:].sum(-1)
    scores = torch.stack([total[0], *lines, *(total[gate] for gate in (4, 5, 6, 7))], -1)
    scores = torch.cat([scores, (1 - scores.sum(-1, keepdim=True)).clamp_min(0)], -1)

    # Each cell is named after the part that has the most of its weight.
    ahead = torch.arange(n, device=visible.device) - torch.arange(n, device=visible.device)[:, None]
    line = 1 + (ahead != 0).to(torch.int8) + (ahead > 0).to(torch.int8)
    most, cells = parts[7], torch.full(parts[7].shape, 7, dtype=torch.int8, device=visible.device)
    for gate in (0, 1, 4, 5, 6, 8):
        wins = parts[gate] > (most if gate != 8 else torch.maximum(most, scale / n / 2))  # next to nothing has no name
        cells = torch.where(wins, line if gate == 1 else gate, cells)
        most = torch.where(wins, parts[gate], most)
    patterns = reduce(add, (parts[gate] for gate in (0, 1, 4, 5, 6))).sum(-1)
    return {
        "scores": scores,
        "columns": parts[0].sum(-2),
        "offsets": offsets,
        "runs": segments.runs[..., 1:-1].long(),
        "rows": parts[6].sum(-1),
        "clustered": parts[4].sum(-2),
        "residual": parts[8],
        "cells": cells.masked_fill(~visible, -1),
        "owned": (patterns > scale[:, 0] / 4).to(scores).mean(-1),
    }


def cross_share(rest: Tensor, column: Tensor, diagonal: Tensor) -> Tensor:
    """Return the column's share of cells where a column meets a diagonal: by the two lines' levels elsewhere."""
    only = column & ~diagonal
    upright = torch.where(only, rest, 0).sum(-2, keepdim=True) / only.sum(-2, keepdim=True).clamp_min(1)
    only = skew(diagonal & ~column)
    slanted = torch.where(only, skew(rest), 0).sum(-2, keepdim=True) / only.sum(-2, keepdim=True).clamp_min(1)
    slanted = unskew(slanted.expand(*only.shape).contiguous())
    share = upright / (upright + slanted).clamp_min(1e-12)
    return torch.where(diagonal, share, 1.0)
