"""What a census counts on the maps of one text and one layer, given their gates: patterns, lines, points, columns.

What belongs here: numbers that are summed over maps. What does not: the gates themselves (:mod:`analysis.maps.gates`),
and sums over texts and models.
"""

import torch
from torch import Tensor

from analysis.maps import gates

PRESENT = 0.05  # a gate is there if it carries this share of the attention
LAST = 12  # "a dozen" last tokens
NEAR = 8  # offsets kept by head
KINDS = ("first", "separator", "punctuation", "other")


def count_patterns(reading: gates.GateReading) -> dict[str, Tensor]:
    """Count maps: with a pattern, with several, and which contextual gates come together."""
    there = reading.scores[..., : len(gates.PATTERNS)] >= PRESENT
    opened, back, ahead = (there[..., gates.GATES.index(name)] for name in ("open", "backward", "forward"))
    return {
        "maps": torch.tensor(there[..., 0].numel()),
        "patterned": there.any(-1).sum(),
        "composed": (there.sum(-1) >= 2).sum(),
        "backward": back.sum(),
        "forward": ahead.sum(),
        "both": (back & ahead).sum(),
        "either": (back | ahead).sum(),
        "either_open": ((back | ahead) & opened).sum(),
        "company": ((back & ahead) | ((back | ahead) & opened)).sum(),
    }


def measure_lines(maps: Tensor, reading: gates.GateReading) -> dict[str, Tensor]:
    """Measure diagonals: their end against the rest in open heads, and how much of its line a contextual run covers."""
    n = maps.shape[-1]
    opened = (reading.score("open") >= PRESENT) & torch.tensor(n >= 4 * LAST, device=maps.device)
    diagonal = maps.diagonal(dim1=-2, dim2=-1)
    offsets = torch.arange(-n + 1, n, device=maps.device)
    lines = (reading.offsets >= PRESENT) & (offsets != 0)
    covered = reading.runs / (n - offsets.abs())
    return {
        "open_maps": opened.sum(),
        "diagonal": diagonal[opened, :-LAST].mean(-1).sum(),
        "diagonal_end": diagonal[opened, -LAST:].mean(-1).sum(),
        "lines": lines.sum(),
        "run_share": covered[lines].sum(),
    }


def measure_points(maps: Tensor, reading: gates.GateReading) -> dict[str, Tensor]:
    """Measure instances: how many, how many of them weak (under one half of their row), and what they carry."""
    points = reading.cells == gates.GATES.index("instance")
    rows = reading.cells == gates.GATES.index("inverse directional")
    return {
        "points": points.sum(),
        "points_weak": (points & (maps < 0.5)).sum(),
        "point_mass": reading.score("instance").sum(),
        "rows": rows.any(-1).sum(),
        "row_points": rows.sum(),
    }


def measure_residual(maps: Tensor, reading: gates.GateReading) -> dict[str, Tensor]:
    """Measure what is in the residual: cells below twice their row's level, cells near the diagonal, faint columns.

    "Loud" is a cell with more than half of its weight in the residual; "told" are cells that no gate takes. If rows
    were independent, a loud cell would have a loud one below it no more often than any cell is loud.
    """
    n, places = maps.shape[-1], torch.arange(maps.shape[-1], device=maps.device)
    near = (places - places[:, None]).abs() <= NEAR
    rows = (reading.cells >= 0).sum(-1, keepdim=True) > 1
    loud = reading.residual * rows.sum(-2, keepdim=True) > maps / 2
    free = reading.cells >= gates.GATES.index("closed")
    above, below = loud[..., :-1, :] & free[..., 1:, :], loud[..., 1:, :]
    return {
        "residual_mass": reading.residual.sum(),
        "residual_quiet": reading.residual[~loud].sum(),
        "residual_near": torch.where(near, reading.residual, 0).sum(),
        "near_cells": ((reading.cells >= 0) & near).sum() / (reading.cells >= 0).sum() * len(maps),
        "loud": loud.sum() / n**2,
        "told": free.sum() / n**2,
        "loud_above": above.sum() / n**2,
        "loud_pairs": (above & below).sum() / n**2,
    }


def measure_columns(maps: Tensor, reading: gates.GateReading, one_hot: Tensor) -> dict[str, Tensor]:
    """Measure columns: how much lies on short ones (under half of the rows), and on which kinds of token.

    "Verticals" count clusters as the short columns side by side that they are ("The geometry of BERT", section 4.5).
    """
    seen = (reading.cells >= 0).sum(-2)
    short = torch.where((reading.cells == 0).sum(-2) < seen / 2, reading.columns, 0).sum()
    cluster = reading.cells == gates.GATES.index("cluster")
    low = torch.where(cluster.sum(-2) < seen / 2, reading.clustered, 0).sum()
    numbers = {
        "directional_mass": reading.columns.sum(),
        "directional_short": short,
        "vertical_mass": reading.columns.sum() + reading.clustered.sum(),
        "vertical_short": short + low,
    }
    by_kind, all_kinds = (reading.columns @ one_hot).sum(0), (maps.mean(-2) @ one_hot).sum(0)
    for i, kind in enumerate(KINDS):
        numbers |= {
            f"tokens_{kind}": one_hot[:, i].mean() * len(maps),
            f"columns_{kind}": by_kind[i],
            f"attention_{kind}": all_kinds[i],
        }
    return numbers


def correlate(a: Tensor, b: Tensor) -> Tensor:
    """Correlate along the last axis (Pearson); 0 where one is constant."""
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    norm = a.norm(dim=-1) * b.norm(dim=-1)
    return torch.where(norm > 1e-12, (a * b).sum(-1) / norm.clamp_min(1e-12), 0)
