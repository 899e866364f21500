"""How far from uniform the heads of several seeds of gpt2-mini are."""

import numpy as np
import torch

from analysis.models import checkpoints
from book.publish.records import Experiment, Result
from book.studies.shared.equality import entropy_shares
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run
from book.studies.weighted_mean.ladder import PASSAGES


def compute(device: torch.device) -> Result:
    """Return the shares of the full entropy, ``(seed, layer, head)``."""
    folders = [find_run(seed, device) for seed in SEEDS]
    shares = [
        entropy_shares(checkpoints.find(str(folder)), passages=PASSAGES, device=device)[0].cpu().numpy()
        for folder in folders
    ]
    return Result({}, {"shares": np.stack(shares)}, {"shares": 0.2})


EXPERIMENT = Experiment(
    "How far from uniform attention several seeds of gpt2-mini are",
    compute,
    models=("gpt2-mini",),
    minutes=25.0,
    seed=SEEDS[-1],
)
