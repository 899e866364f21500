"""The gate detector on maps of known make, on MiniLM's own scores with their order drawn, and what reading a map costs.

*Alarm* is a cell named after a gate in a map that holds none: its rows are independent, their weights at random places.
For lines a rate is proved whatever the weights are (:func:`analysis.maps.gates.segmentation.find_lines`); for blocks
and points it is measured, on sorts of rows that are kind to them and on sorts that are not. *Power* is the share of the
cells of a drawn gate that are named after it. The detector was developed on draws of other seeds, and *specimens* are
maps with known truth that its constants were not chosen on.

Rows of real maps are not independent: the scores are products of short queries and keys, so they have low rank and
popular keys. With MiniLM's own scores all of that is kept: each head's queries and keys are those of a text, and only
their order is drawn. What is then read as a diagonal or as a block is not there by position.

Times and memory differ from machine to machine, so their tolerance holds anything.
"""

import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import HELD_OUT, TUNING, draw, draw_noise, read_specimens
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import project, softmax
from book.lab.documents import load_documents
from book.lab.map_counts import PRESENT, measure_lines
from book.publish.records import Experiment, Result, Value

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
DRAWN_SIZES = {16: 12, 32: 12, 64: 12, 128: 8, 256: 4, 512: 2, 1024: 1}
"""Maps drawn of each size, for each gate and each noise."""
LABELS = (*gates.PATTERNS, "closed")
MIXED = gates.PATTERNS[:5]
SPECIMEN_SEED = 2026
LONGEST, ORDER_SEED = 96, 0  # tokens of a document
ORDERS = ("as they are", "keys shuffled", "queries and keys shuffled")


def calibrate(device: torch.device) -> Result:
    """Draw and read maps of all sizes."""
    return measure_alarms(SIZES, COUNT, device)


def measure_alarms(sizes: tuple[int, ...], count: int, device: torch.device) -> Result:
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


def read_held_out(device: torch.device) -> Result:
    """The gate reader on held-out maps with known truth."""
    return measure_specimens(DRAWN_SIZES, TUNING, HELD_OUT, device)


def measure_specimens(
    counts: dict[int, int], tuning: tuple[str, ...], held_out: tuple[str, ...], device: torch.device
) -> Result:
    """Read single gates, mixtures of two to four, and mixtures with their rows shuffled, over held-out noise."""
    sizes, noises, kinds = len(counts), len(held_out), len(gates.PATTERNS)
    confusion = np.zeros((sizes, noises, len(LABELS), len(gates.GATES)), np.float32)
    mixed = {
        name: np.zeros((sizes, noises, kinds), np.float32)
        for name in ("present", "found", "absent", "false", "error", "maps")
    }
    shuffled = np.zeros((sizes, len(tuning) + noises, kinds), np.float32)
    for i, (n, count) in enumerate(counts.items()):
        for j, noise in enumerate(held_out):
            rng = np.random.default_rng([SPECIMEN_SEED, n, j])
            for label in LABELS:
                single = [draw(n, [label] if label != "closed" else [], noise, rng) for _ in range(count)]
                for _, _, name in read_specimens(single, device=device):
                    confusion[i, j, LABELS.index(label), gates.GATES.index(name)] += 1
            several = [
                draw(n, list(rng.choice(MIXED, size=rng.integers(2, 5), replace=False)), noise, rng)
                for _ in range(4 * count)
            ]
            for specimen, scores, _ in read_specimens(several, device=device):
                truth, read = specimen.truth[:kinds], scores[:kinds]
                mixed["present"][i, j] += truth >= 0.05
                mixed["found"][i, j] += (truth >= 0.05) & (read >= truth / 2)
                mixed["absent"][i, j] += truth < 0.01
                mixed["false"][i, j] += (truth < 0.01) & (read >= 0.05)
                mixed["error"][i, j] += np.abs(read - truth)
                mixed["maps"][i, j] += 1
        for j, noise in enumerate(tuning + held_out):
            rng = np.random.default_rng([SPECIMEN_SEED, n, 100 + j])
            maps = np.stack(
                [
                    draw(n, ["directional", "backward", "cluster"], noise, rng).attention
                    for _ in range(max(2, count // 2))
                ]
            )
            reading = gates.read_gates(torch.as_tensor(rng.permuted(maps, axis=-1)).to(device))
            shuffled[i, j] = reading.scores[:, :kinds].mean(0).cpu().numpy()
    lines = confusion[:, :, :4].sum((0, 1))
    right = (confusion[:, :, range(len(LABELS)), range(len(LABELS))]).sum((0, 1))
    right[-1] += confusion[:, :, -1, -1].sum()  # noise called residual: nothing was read into it
    values = {
        "accuracy": Value(float(right.sum() / confusion.sum()), 0.01, n=int(confusion.sum())),
        "lines_named": Value(float(np.trace(lines) / lines.sum()), 0.01, n=int(lines.sum())),
    }
    for i, label in enumerate(LABELS):
        drawn = int(confusion[:, :, i].sum())
        values[f"named_{label}"] = Value(float(right[i] / drawn), 0.02, n=drawn)
    arrays = {"confusion": confusion, "shuffled": shuffled} | {f"mixed_{name}": part for name, part in mixed.items()}
    tolerances = dict.fromkeys(arrays, 2.0) | {"mixed_error": 0.3, "shuffled": 0.01}
    return Result(values, arrays, tolerances)


def read_own_scores(device: torch.device) -> Result:
    """The gate detector on MiniLM's own scores with keys, or queries and keys, in a random order.

    Return, over documents, orders and gates, shares of the attention, and of the maps that have 5 % on the gate.
    """
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    layers, shares, present = load(network).plain_layers(), [], []
    for seed, document in enumerate(load_documents()):
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        generator = torch.Generator().manual_seed(ORDER_SEED + seed)
        scores = torch.stack([read_orders(x, layer, generator) for x, layer in zip(states, layers)])
        shares.append(scores.mean((0, 2)).numpy(force=True))
        present.append((scores >= PRESENT).double().mean((0, 2)).numpy(force=True))
    arrays = {"shares": np.array(shares, np.float32), "present": np.array(present, np.float32)}
    return Result({}, arrays, dict.fromkeys(arrays, 0.02))


def read_orders(x: torch.Tensor, layer, generator: torch.Generator) -> torch.Tensor:
    """Read the maps of one layer in each of the orders: scores ``(order, head, gate)``."""
    queries, keys = project(x, layer.W_Q, layer.b_Q), project(x, layer.W_K, layer.b_K)
    maps = softmax(queries @ keys.mT / layer.channel**0.5)
    key_order, query_order = (draw_orders(len(maps), len(x), generator).to(x.device) for _ in range(2))
    shuffled = torch.stack([one[:, order] for one, order in zip(maps, key_order)])
    both = torch.stack([one[order] for one, order in zip(shuffled, query_order)])
    return torch.stack([gates.read_gates(each).scores for each in (maps, shuffled, both)])


def draw_orders(heads: int, n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw an order of the positions for each head.

    >>> draw_orders(2, 3, torch.Generator().manual_seed(0)).sort(-1).values
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    return torch.rand(heads, n, generator=generator).argsort(-1)


COST_SIZES, COST_SEED = (128, 256, 512, 1024, 2048), 0
ANYTHING = 1e9
MEMORY = """
import re, sys
from pathlib import Path

from analysis.maps.gates import read_gates
from book.experiments.gate_detector import a_map

def peak():  # of this process; getrusage would count its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

maps = a_map(int(sys.argv[1]))
read_gates(a_map(64))
Path("/proc/self/clear_refs").write_text("5")
before = peak()
read_gates(maps)
print(peak() - before)
"""


def a_map(n: int) -> torch.Tensor:
    """Draw the map that is read, in single precision as models give it."""
    specimen = draw(n, ("directional", "backward", "cluster"), "lognormal", np.random.default_rng([COST_SEED, n]))
    return torch.as_tensor(specimen.attention).float()


def measure_reading(sizes: Sequence[int], repeats: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return CPU seconds (least of several) and added peak memory in MB of reading one map of each size."""
    seconds, memory = [], []
    for n in sizes:
        maps, times = a_map(n), []
        for _ in range(repeats):
            start = time.process_time()
            gates.read_gates(maps)
            times.append(time.process_time() - start)
        seconds.append(min(times))
        told = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
        memory.append(int(told.stdout) / 1024)
    return np.array(seconds), np.array(memory)


def measure_cost(device: torch.device) -> Result:
    """Time and memory of the gate reader by size of the map.

    Measure on the CPU, whatever device there is.
    """
    seconds, memory = measure_reading(COST_SIZES)
    return Result(
        arrays={"sizes": np.array(COST_SIZES), "seconds": seconds, "megabytes": memory},
        tolerances={"seconds": ANYTHING, "megabytes": ANYTHING},
    )


EXPERIMENTS = {
    "gate-detector-calibration": Experiment(
        calibrate,
        summary="The gate detector on independent rows of kind and of unkind sorts, on bands, and on maps with a gate "
        "of every sort",
        minutes=2,
        seed=SEED,
    ),
    "gate-detector-specimens": Experiment(read_held_out, minutes=3, seed=SPECIMEN_SEED),
    "gate-detector-own-scores": Experiment(read_own_scores, models=("minilm",), minutes=1, seed=ORDER_SEED),
    "gate-detector-cost": Experiment(measure_cost, minutes=0.5, seed=COST_SEED),
}
