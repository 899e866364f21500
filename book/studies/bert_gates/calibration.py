"""The gate detector on maps of known make: how often it sees a gate in independent rows, and how much of a drawn one.

*Alarm* is a cell named after a gate, in a map whose rows are independent: at most 5 % of the maps may have one, of each
gate. *Present* is a gate with 5 % of the attention, what the census counts. *Power* is the share of the cells of a
drawn gate that are named after it. The detector was developed on draws of other seeds.
"""

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import draw_noise
from analysis.surveys.map_counts import PRESENT, measure_lines
from book.publish.records import Experiment, Result

SIZES, COUNT, SEED = (16, 64, 128), 200, 2027
INDEPENDENT = (
    "even",
    "uneven",
    "very uneven",
    "spiky",
    "rows of different evenness",
    "causal, even",
    "causal, uneven",
    "causal, very uneven",
)
UNNAMED = ("sharp low rank", "band")
DRAWN = {
    "column, weak": "directional",
    "diagonal, weak": "backward",
    "diagonal, strong": "backward",
    "block": "cluster",
    "block, causal": "cluster",
    "points, even": "instance",
    "points, uneven": "instance",
    "points, spiky": "instance",
    "rows of points, even": "inverse directional",
    "rows of points, uneven": "inverse directional",
}
"""Maps with a gate, and the gate. Weak lines have 0.15 of each row, strong ones 0.6; cells of a block are eight times
as large as others; a point has 0.9 of its row, and four together have 0.2 each."""


def compute(device: torch.device) -> Result:
    """Draw and read; arrays over sizes, kinds of map and patterns, and over sizes and drawn gates."""
    kinds, patterns = (*INDEPENDENT, *UNNAMED), len(gates.PATTERNS)
    alarms, present, shares = (np.zeros((len(SIZES), len(kinds), patterns), np.float32) for _ in range(3))
    power, covered = np.zeros((len(SIZES), len(DRAWN)), np.float32), np.zeros((len(SIZES), 2), np.float32)
    for i, n in enumerate(SIZES):
        for j, kind in enumerate(kinds):
            _, reading, _ = read_kind(kind, n, j, device)
            seen = torch.stack([(reading.cells == k).flatten(1).any(1) for k in range(patterns)], 1)
            alarms[i, j] = seen.double().mean(0).cpu()
            present[i, j] = (reading.scores[:, :patterns] >= PRESENT).double().mean(0).cpu()
            shares[i, j] = reading.scores[:, :patterns].mean(0).cpu()
        for j, (kind, gate) in enumerate(DRAWN.items()):
            maps, reading, truth = read_kind(kind, n, len(kinds) + j, device)
            power[i, j] = (reading.cells.cpu().numpy() == gates.GATES.index(gate))[truth].mean()
            if kind.startswith("diagonal"):
                lines = measure_lines(maps, reading)
                covered[i, int("strong" in kind)] = (lines["run_share"] / lines["lines"].clamp_min(1)).item()
    arrays = {"alarms": alarms, "present": present, "shares": shares, "power": power, "covered": covered}
    return Result({}, arrays, dict.fromkeys(arrays, 0.05))


def read_kind(
    kind: str, n: int, index: int, device: torch.device
) -> tuple[torch.Tensor, gates.GateReading, np.ndarray]:
    """Draw the maps of a kind and read them; return maps, reading and the cells of the drawn gate."""
    maps, truth = draw_maps(kind, n, COUNT, np.random.default_rng([SEED, n, index]))
    attention = torch.as_tensor(maps).to(device)
    return attention, gates.read_gates(attention, causal="causal" in kind), truth


def draw_maps(kind: str, n: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw maps ``(map, query, key)`` of a kind, and mark the cells of its gate, none where rows are independent."""
    noise = kind.removeprefix("causal, ").removeprefix("rows of points, ").removeprefix("points, ")
    weights = draw_rows(noise, n, count, rng)
    weights /= weights.sum(-1, keepdims=True)
    places, truth = np.arange(n), np.zeros((count, n, n), bool)
    if kind == "band":
        weights = weights * np.exp(-abs(places - places[:, None]) / (n / 16))
    elif kind.startswith("block"):
        truth[:, n // 2 : 3 * n // 4, n // 8 : 3 * n // 8] = True
        weights = np.where(truth, 8 * weights, weights)
    elif kind in DRAWN:
        if kind.startswith("column"):
            truth[:, :, n // 3] = True
        elif kind.startswith("diagonal"):
            truth[:, places[2:], places[2:] - 2] = True
        else:
            keys = [n // 3] if kind.startswith("points") else [1, n // 3, n // 2, n - 2]
            truth[:, :: n // 4, keys] = True
        strength = 0.9 if kind.startswith("points") else 0.8 if "points" in kind else 0.6 if "strong" in kind else 0.15
        inside = truth.sum(-1, keepdims=True)
        weights = weights * (1 - strength * (inside > 0)) + strength * truth / np.maximum(inside, 1)
    if "causal" in kind:
        weights = np.tril(weights)
    return weights / weights.sum(-1, keepdims=True), truth


def draw_rows(noise: str, n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw weights ``(map, query, key)`` that are independent by row; kinds without a noise of their own are even."""
    if noise == "sharp low rank":
        return np.exp(2 * rng.standard_normal((count, n, 8)) @ rng.standard_normal((count, 8, n)) / 8**0.5)
    if noise == "very uneven":
        return rng.dirichlet(np.full(n, 0.1), size=(count, n)) + 1e-25
    if noise == "spiky":
        return np.exp(0.5 * rng.standard_normal((count, n, n))) * np.where(rng.random((count, n, n)) < 4 / n, 40, 1)
    if noise == "uneven":
        return rng.permuted(np.stack([draw_noise("patchy", n, rng) for _ in range(count)]), axis=-1)
    spread = rng.uniform(0.2, 3, (count, n, 1)) if noise == "rows of different evenness" else 0.5
    return np.exp(spread * rng.standard_normal((count, n, n)))


EXPERIMENT = Experiment(
    "The gate detector on independent rows, bands, and maps with a gate of every kind", compute, minutes=1, seed=SEED
)
