"""The gate detector on maps of known make: how often it sees patterns in independent rows, and what it makes of others.

*Alarm* is a cell named after a pattern, in a map whose rows are independent; 5 % of the maps may have one of a kind.
*Present* is a pattern with 5 % of the attention, what the census counts.
"""

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import draw_noise
from analysis.surveys.map_counts import PRESENT, measure_lines
from analysis.surveys.records import Experiment, Result

SIZES, COUNT, SEED = (64, 128), 60, 0
INDEPENDENT = ("even", "uneven", "very uneven", "rows of different evenness", "causal, even", "causal, uneven")
MADE = ("sharp low rank", "band", "block, causal", "diagonal, weak", "diagonal, strong", "points, even",
        "points, uneven", "points, spiky")


def compute(device: torch.device) -> Result:
    """Draw and read; arrays over sizes, kinds of map and patterns."""
    kinds = (*INDEPENDENT, *MADE)
    shape = len(SIZES), len(kinds), len(gates.PATTERNS)
    alarms, present, shares = (np.zeros(shape, np.float32) for _ in range(3))
    covered, points = np.zeros((len(SIZES), 2), np.float32), np.zeros((len(SIZES), 3), np.float32)
    for i, n in enumerate(SIZES):
        for j, kind in enumerate(kinds):
            maps, truth = draw_maps(kind, n, COUNT, np.random.default_rng([SEED, n, j]))
            reading = gates.read_gates(torch.as_tensor(maps).to(device), causal="causal" in kind)
            seen = torch.stack([(reading.cells == k).flatten(1).any(1) for k in range(shape[2])], 1)
            alarms[i, j] = seen.double().mean(0).cpu()
            present[i, j] = (reading.scores[:, :shape[2]] >= PRESENT).double().mean(0).cpu()
            shares[i, j] = reading.scores[:, :shape[2]].mean(0).cpu()
            if kind.startswith("diagonal"):
                lines = measure_lines(torch.as_tensor(maps).to(device), reading)
                covered[i, int("strong" in kind)] = (lines["run_share"] / lines["lines"].clamp_min(1)).item()
            if kind.startswith("points"):
                named = (reading.cells == gates.GATES.index("instance")).cpu().numpy()
                points[i, MADE.index(kind) - MADE.index("points, even")] = named[truth].mean()
    arrays = {"alarms": alarms, "present": present, "shares": shares, "covered": covered, "points": points}
    return Result({}, arrays, dict.fromkeys(arrays, 0.05))


def draw_maps(kind: str, n: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw maps ``(map, query, key)`` of a kind, and mark the cells of its pattern, none where rows are independent."""
    truth = np.zeros((count, n, n), bool)
    places = np.arange(n)
    if kind in ("uneven", "very uneven", "causal, uneven", "points, uneven", "points, spiky"):
        weights = _independent(kind.rsplit(", ", maxsplit=1)[-1], n, count, rng)
    elif kind == "rows of different evenness":
        weights = np.exp(rng.uniform(0.2, 3, (count, n, 1)) * rng.standard_normal((count, n, n)))
    elif kind == "sharp low rank":
        weights = np.exp(2 * rng.standard_normal((count, n, 8)) @ rng.standard_normal((count, 8, n)) / 8**0.5)
    else:
        weights = _independent("even", n, count, rng)
    weights /= weights.sum(-1, keepdims=True)
    if kind == "band":
        weights = weights * np.exp(-abs(places - places[:, None]) / (n / 16))
    if kind == "block, causal":
        truth[:, n // 2:3 * n // 4, n // 8:3 * n // 8] = True
        weights = np.where(truth, 8 * weights, weights)
    if kind.startswith("diagonal"):
        truth[:, places[2:], places[2:] - 2] = True
        strength = 0.6 if "strong" in kind else 0.15
        weights = weights * (1 - strength * truth.any(-1, keepdims=True)) + strength * truth
    if kind.startswith("points"):
        truth[:, ::n // 4, n // 3] = True
        weights = np.where(truth.any(-1, keepdims=True), 0.1 * weights, weights) + 0.9 * truth
    if "causal" in kind:
        weights = np.tril(weights)
    return weights / weights.sum(-1, keepdims=True), truth


def _independent(kind: str, n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "very uneven":
        return rng.dirichlet(np.full(n, 0.1), size=(count, n)) + 1e-25
    if kind == "spiky":
        return np.exp(0.5 * rng.standard_normal((count, n, n))) * np.where(rng.random((count, n, n)) < 4 / n, 40, 1)
    if kind == "uneven":
        return rng.permuted(np.stack([draw_noise("patchy", n, rng) for _ in range(count)]), axis=-1)
    return np.exp(0.5 * rng.standard_normal((count, n, n)))


EXPERIMENT = Experiment("The gate detector on independent rows, bands, diagonals, points and causal maps", compute,
                        minutes=0.4, seed=SEED)
