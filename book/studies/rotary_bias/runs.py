"""Which models were trained for the chapter on rotary positions, and how all of a record's are measured."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from analysis.core.files import claim_folder
from book.lab.rotary_probe import make_probe
from book.lab.training import gpt2_mini, neox_mini
from book.publish.records import Value
from book.studies.rotary_bias.run_measures import measure_run

SEEDS = 3
PARALLEL = ("neox-mini", "neox-mini-partial", "neox-mini-unbiased")
RUNS = tuple((name, seed) for name in PARALLEL for seed in range(SEEDS))
"""Variant and seed, of blocks whose attention and MLP are parallel."""
SEQUENTIAL = tuple(("neox-mini-sequential", seed) for seed in range(SEEDS))
"""The same where the MLP follows attention."""


def seeds_of(name: str, runs: Iterable[tuple[str, int]] = RUNS) -> list[int]:
    """Return where the seeds of a variant stand among the runs.

    >>> seeds_of("b", [("a", 0), ("b", 0), ("b", 1)])
    [1, 2]
    """
    return [k for k, (variant, _) in enumerate(runs) if variant == name]


def measure_runs(
    runs: Sequence[tuple[str, int]], corpus: gpt2_mini.Corpus, device: torch.device
) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Train what is not yet trained and measure every model; arrays are by run.

    Another machine rounds otherwise and its training drifts away from this one, so the tolerance is wide.
    """
    by_run = [measure_run(train(name, seed, corpus, device), corpus, device) for name, seed in runs]
    arrays = {key: np.stack([measured[key] for measured in by_run]).astype(np.float32) for key in by_run[0]}
    arrays["step"] = by_run[0]["step"].astype(np.int64)
    losses = {
        f"loss {name} {seed}": Value(float(arrays["held_out"][k, -1]), tolerance=0.05, unit="nats per token")
        for k, (name, seed) in enumerate(runs)
    }
    return losses, arrays


def train(name: str, seed: int, corpus: gpt2_mini.Corpus, device: torch.device) -> Path:
    """Train one model where that has not been done, and return its folder."""
    out = Path("runs", f"rotary-bias-{name}-{seed}")
    with claim_folder(out, f"training of {name}"):
        neox_mini.train(out, name, seed=seed, device=str(device), probe=make_probe(corpus.windows), corpus=corpus)
    return out
