"""When, in training, the recency bias appears: two seeds of gpt2-mini, the positional semi-bias head by head.

Seed 0 is the bundled model and is read from its trace, seed 1 is trained. Another machine rounds
otherwise and its run drifts away from this one, so the tolerances are wide: what has to repeat is the finding.
"""

import shutil
from pathlib import Path

import numpy as np
import torch

from analysis.core.files import claim_folder
from analysis.models import checkpoints
from analysis.surveys.records import Experiment, Result, Value
from analysis.surveys.semi_bias_probe import semi_bias_probe

SEEDS = (0, 1)
KEPT = ("held_out", "loss", "rank_correlation", "size", "rank_correlation_folded", "size_folded")


def compute(device: torch.device) -> Result:
    """Collect the traces of the seeds, and when half of layer 0's heads prefer later keys for good."""
    from analysis.training import gpt2_mini

    _, bundled = gpt2_mini.read_trace(checkpoints.find("gpt2-mini").folder)
    traces = [bundled]
    runs = [Path("runs", f"semi-bias-emergence-{seed}") for seed in SEEDS[1:]]
    for seed, out in zip(SEEDS[1:], runs):
        with claim_folder(out, f"training of {gpt2_mini.NAME}"):
            gpt2_mini.train(out, seed=seed, device=str(device), probe=semi_bias_probe)
            traces.append(gpt2_mini.read_trace(out)[1])
    for out in runs:  # what is left there by an interruption is gone on from, what is finished is not used again
        shutil.rmtree(out)
    arrays = {name: np.stack([trace[name] for trace in traces]).astype(np.float32) for name in KEPT}
    values = {}
    for seed, rho in zip(SEEDS, arrays["rank_correlation"][:, :, 0]):
        values[f"held_out_{seed}"] = Value(float(arrays["held_out"][seed, -1]), tolerance=0.05, unit="nats a token")
        values[f"recent_heads_{seed}"] = Value(int((rho[-1] > 0.5).sum()), tolerance=2, n=rho.shape[1])
        values[f"appears_{seed}"] = Value(settled(bundled["step"], rho), tolerance=200, unit="steps")
    wide = {"held_out": 0.5, "loss": 1.0, "size": 2.0, "size_folded": 2.0, "rank_correlation": 2.0,
            "rank_correlation_folded": 2.0}
    return Result(values, {"step": bundled["step"], **arrays}, wide)


def settled(steps: np.ndarray, rho: np.ndarray, above: float = 0.5) -> int:
    """Return the first probed step from which on at least half of the heads have ``rho > above``; -1 for none.

    >>> settled(np.array([0, 1, 2, 4]), np.array([[0.0], [0.9], [0.1], [0.9]]))
    4
    """
    below = (rho > above).mean(1) < 0.5
    after = int(np.flatnonzero(below).max(initial=-1)) + 1
    return int(steps[after]) if after < len(steps) else -1


EXPERIMENT = Experiment(
    models=("gpt2-mini",), compute=compute, minutes=8.0, seed=SEEDS[-1],
    summary="The positional semi-bias of gpt2-mini, head by head, at 60 steps of training with two seeds")
