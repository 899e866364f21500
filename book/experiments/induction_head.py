"""Train attention-only transformers on repeated random tokens and watch induction heads form.

Three seeds of the two-layer model, then two more, and one run of a single layer, which has nothing to compose. Step 0
of each run is its control: the same architecture with its random initial weights.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from book.lab.induction_probe import make_probe
from book.lab.training import attention_only
from book.publish.records import Experiment, Result, Value

SEEDS, MORE_SEEDS = (0, 1, 2), (3, 4)


def formed_at(steps: np.ndarray, prefix: np.ndarray) -> int:
    """Return the first probed step at which some head's prefix matching reaches one half; -1 if none does."""
    reached = prefix.reshape(len(steps), -1).max(1) >= 0.5
    return int(steps[reached.argmax()]) if reached.any() else -1


def compute(device: torch.device) -> Result:
    """Attention-only transformers on repeated random tokens: losses and head scores over training."""
    config = attention_only.Config()
    return train_runs(
        {f"seed-{seed}": (config, seed) for seed in SEEDS} | {"one-layer": (replace(config, layers=1), 0)}, device
    )


def train_runs(
    runs: Mapping[str, tuple[attention_only.Config, int]], device: torch.device, steps: int = attention_only.STEPS
) -> Result:
    """Train runs and keep their traces; ``INDUCTION_RUNS`` names a folder in which interrupted runs resume."""
    values, arrays, tolerances = {}, {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get("INDUCTION_RUNS", scratch))
        for name, (sizes, seed) in runs.items():
            options = {"seed": seed, "device": str(device), "probe": make_probe(sizes), "config": sizes, "name": name}
            trace = attention_only.train(folder / name, steps, **options)[1].trace
            arrays |= {f"{name}/{key}": value for key, value in trace.items()}
            tolerances |= {f"{name}/{key}": 5.0 if key in ("new", "repeated") else 1.0 for key in trace}
            values[f"{name}/repeated"] = Value(float(trace["repeated"][-1]), tolerance=0.1, unit="nats")
            values[f"{name}/new"] = Value(float(trace["new"][-1]), tolerance=0.1, unit="nats")
            values[f"{name}/prefix"] = Value(float(trace["prefix"][-1].max()), tolerance=0.1)
            values[f"{name}/formed"] = Value(formed_at(trace["step"], trace["prefix"]), tolerance=100, unit="steps")
    return Result(values, arrays, tolerances)


def train_more_seeds(device: torch.device) -> Result:
    """Attention-only transformers on repeated random tokens: seeds 3 and 4."""
    config = attention_only.Config()
    return train_runs({f"seed-{seed}": (config, seed) for seed in MORE_SEEDS}, device)


EXPERIMENTS = {
    "induction-head-training": Experiment(compute, minutes=12.0, seed=0),
    "induction-head-more-seeds": Experiment(train_more_seeds, minutes=6.0, seed=MORE_SEEDS[0]),
}
