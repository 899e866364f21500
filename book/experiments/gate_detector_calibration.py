"""The gate detector on maps of known make: where no gate is meant, and where one was drawn.

*Alarm* is a cell named after a gate in a map that holds none: its rows are independent, their weights at random places.
For lines a rate is proved whatever the weights are (:func:`analysis.maps.gates.segmentation.find_lines`); for blocks
and points it is measured, on sorts of rows that are kind to them and on sorts that are not. *Power* is the share of the
cells of a drawn gate that are named after it. The detector was developed on draws of other seeds.
"""

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import draw_noise
from book.lab.map_counts import measure_lines
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
UNKIND = ("three in ten larger", "heavy tails", "even and uneven in turn", "seven values", "two values")
"""Independent rows on which blocks and points have no promise."""
STRUCTURED = ("sharp low rank", "band")
KINDS = (*INDEPENDENT, *STRUCTURED, *UNKIND)
DRAWN_FROM = 100  # a seed of its own for each kind of map: its place here, and from here on for drawn gates
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
    "the paper's point, 1 % noise": "instance",
    "the paper's point, 10 % noise": "instance",
}
"""Maps with a gate, and the gate. Weak lines have 0.15 of each row, strong ones 0.6; cells of a block are eight times
as large as others; a point has 0.9 of its row, and four together have 0.2 each."""


def compute(device: torch.device) -> Result:
    """Draw and read maps of all sizes."""
    return measure(SIZES, COUNT, device)


def measure(sizes: tuple[int, ...], count: int, device: torch.device) -> Result:
    """Draw and read; arrays over sizes, kinds of map and patterns, and over sizes and drawn gates."""
    patterns = len(gates.PATTERNS)
    alarms, shares = (np.zeros((len(sizes), len(KINDS), patterns), np.float32) for _ in range(2))
    power, covered = np.zeros((len(sizes), len(DRAWN)), np.float32), np.zeros((len(sizes), 2), np.float32)
    for i, n in enumerate(sizes):
        for j, kind in enumerate(KINDS):
            _, reading, _ = read_kind(kind, n, count, j, device)
            seen = torch.stack([(reading.cells == k).flatten(1).any(1) for k in range(patterns)], 1)
            alarms[i, j] = seen.double().mean(0).cpu()
            shares[i, j] = reading.scores[:, :patterns].mean(0).cpu()
        for j, (kind, gate) in enumerate(DRAWN.items()):
            maps, reading, truth = read_kind(kind, n, count, DRAWN_FROM + j, device)
            power[i, j] = (reading.cells.cpu().numpy() == gates.GATES.index(gate))[truth].mean()
            if kind.startswith("diagonal"):
                lines = measure_lines(maps, reading)
                covered[i, int("strong" in kind)] = (lines["run_share"] / lines["lines"].clamp_min(1)).item()
    arrays = {"alarms": alarms, "shares": shares, "power": power, "covered": covered}
    return Result({}, arrays, dict.fromkeys(arrays, 0.05))


def read_kind(
    kind: str, n: int, count: int, index: int, device: torch.device
) -> tuple[torch.Tensor, gates.GateReading, np.ndarray]:
    """Draw the maps of a kind and read them; return maps, reading and the cells of the drawn gate."""
    maps, truth = draw_maps(kind, n, count, np.random.default_rng([SEED, n, index]))
    attention = torch.as_tensor(maps).to(device)
    return attention, gates.read_gates(attention, causal="causal" in kind), truth


def draw_maps(kind: str, n: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw maps ``(map, query, key)`` of a kind, and mark the cells of its gate, none where rows are independent."""
    noise = kind.removeprefix("causal, ").removeprefix("rows of points, ").removeprefix("points, ")
    weights = draw_rows(noise, n, count, rng)
    weights /= weights.sum(-1, keepdims=True)
    places, truth = np.arange(n), np.zeros((count, n, n), bool)
    if kind.startswith("the paper's"):
        truth[:, n // 2, n // 3] = True
        mixed = int(kind.split()[-3]) / 100
        ideal = np.where(truth.any(-1, keepdims=True), truth, 1 / n)
        return (1 - mixed) * ideal + mixed * rng.dirichlet(np.ones(n), size=(count, n)), truth
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
    """Draw weights that are independent by row, but for low rank; sorts without a noise of their own are even."""
    shape = (count, n, n)

    def normal() -> np.ndarray:
        return rng.standard_normal(shape)

    def patchy() -> np.ndarray:
        return rng.permuted(np.stack([draw_noise("patchy", n, rng) for _ in range(count)]), axis=-1)

    def even() -> np.ndarray:
        return np.exp(0.5 * normal())

    sorts = {
        "sharp low rank": lambda: np.exp(
            2 * rng.standard_normal((count, n, 8)) @ rng.standard_normal((count, 8, n)) / 8**0.5
        ),
        "very uneven": lambda: rng.dirichlet(np.full(n, 0.1), size=(count, n)) + 1e-25,
        "spiky": lambda: even() * np.where(rng.random(shape) < 4 / n, 40, 1),
        "uneven": patchy,
        "rows of different evenness": lambda: np.exp(rng.uniform(0.2, 3, (count, n, 1)) * normal()),
        "three in ten larger": lambda: np.where(rng.random(shape) < 0.3, 8.0, 1.0) * np.exp(0.3 * normal()),
        "heavy tails": lambda: np.exp(rng.standard_t(5, shape).clip(-40, 40)),
        "even and uneven in turn": lambda: turn(patchy() * n, even()),
        "seven values": lambda: np.exp(normal().round().clip(-3, 3)),
        "two values": lambda: np.where(rng.random(shape) < 0.3, 2.0, 1.0),
    }
    return sorts.get(noise, even)()


def turn(odd: np.ndarray, even: np.ndarray) -> np.ndarray:
    """Take every second row from each.

    >>> turn(np.zeros((1, 3, 1)), np.ones((1, 3, 1))).ravel()
    array([1., 0., 1.])
    """
    return np.where((np.arange(odd.shape[1]) % 2 == 0)[:, None], even, odd)


EXPERIMENT = Experiment(
    "The gate detector on independent rows of kind and of unkind sorts, on bands, and on maps with a gate of every "
    "sort",
    compute,
    minutes=2,
    seed=SEED,
)
