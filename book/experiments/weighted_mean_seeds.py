"""How far from uniform attention several trainings of gpt2-mini are."""

from pathlib import Path

import torch

from analysis.models import checkpoints
from book.lab.equality import entropy_shares
from book.lab.gpt2_mini_runs import SEEDS, find_run
from book.publish.records import Experiment, Result

PASSAGES = 4


def compute(device: torch.device) -> Result:
    """Measure every seed, trained where it lies nowhere."""
    return measure([find_run(seed, device) for seed in SEEDS], device)


def measure(folders: list[Path], device: torch.device) -> Result:
    """Return the shares of the full entropy, ``(seed, layer, head)``."""
    seeds = [entropy_shares(checkpoints.find(str(each)), passages=PASSAGES, device=device)[0] for each in folders]
    return Result({}, {"shares": torch.stack(seeds).numpy(force=True)}, {"shares": 0.2})


EXPERIMENT = Experiment(
    "How far from uniform attention several seeds of gpt2-mini are",
    compute,
    models=("gpt2-mini",),
    minutes=25.0,
    seed=SEEDS[-1],
)
