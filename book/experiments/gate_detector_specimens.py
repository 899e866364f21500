"""The gate reader on maps with known truth that its constants were not chosen on: confusion, recall, false alarms."""

import numpy as np
import torch

from analysis.maps import gates
from analysis.maps.gates.synthetic import HELD_OUT, TUNING, draw, read_specimens
from book.publish.records import Experiment, Result, Value

SIZES = {16: 12, 32: 12, 64: 12, 128: 8, 256: 4, 512: 2, 1024: 1}
"""Maps drawn of each size, for each gate and each noise."""
LABELS = (*gates.PATTERNS, "closed")
MIXED = gates.PATTERNS[:5]
SEED = 2026


def compute(device: torch.device) -> Result:
    """Read maps of all sizes and noises."""
    return measure(SIZES, TUNING, HELD_OUT, device)


def measure(counts: dict[int, int], tuning: tuple[str, ...], held_out: tuple[str, ...], device: torch.device) -> Result:
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
            rng = np.random.default_rng([SEED, n, j])
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
            rng = np.random.default_rng([SEED, n, 100 + j])
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


EXPERIMENT = Experiment(
    summary="the gate reader on held-out maps with known truth", compute=compute, minutes=3, seed=SEED
)
