"""When, in training, the recency bias appears: several seeds of gpt2-mini, the positional semi-bias head by head.

Seed 0 is the bundled model and is read from its trace, the others are trained where no finished run is found
(``book.studies.shared.gpt2_mini_runs``). Another machine rounds otherwise and its run drifts away from this one, so
the tolerances are wide: what has to repeat is the finding.

How often each token occurs in gpt2-mini's training text is the control for the norm of its embedding. The text is what
this Python carries, so another Python version counts a little differently: shares have a wide tolerance, and so have
the correlations that rest on them.
"""

import numpy as np
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value
from book.studies.semi_bias import locality
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run


def count_tokens(device: torch.device) -> Result:
    """Count the tokens of the training part of the corpus."""
    ck = checkpoints.find("gpt2-mini")
    ids = pretrained.tokenizer(ck).backend_tokenizer.encode(texts.corpus()).ids
    counts = np.bincount(ids, minlength=len(load(ck).tokens))
    return Result(
        {
            "tokens": Value(len(ids), tolerance=0.1 * len(ids), unit="tokens"),
            "never": Value(int((counts == 0).sum()), tolerance=100, n=len(counts), unit="tokens"),
        },
        {"per_million": (1e6 * counts / len(ids)).astype(np.float32)},
        {"per_million": 2e3},
    )


KEPT = ("held_out", "loss", "rank_correlation", "size", "rank_correlation_folded", "size_folded")


def trace_seeds(device: torch.device) -> Result:
    """Collect the traces of the seeds, and when half of layer 0's heads prefer later keys for good; and their ends."""
    folders = [find_run(seed, device) for seed in SEEDS]
    traces = [gpt2_mini.read_trace(folder)[1] for folder in folders]
    arrays = {name: np.stack([trace[name] for trace in traces]) for name in KEPT}
    values = {}
    for seed, rho in zip(SEEDS, arrays["rank_correlation"][:, :, 0]):
        values[f"held_out_{seed}"] = Value(float(arrays["held_out"][seed, -1]), tolerance=0.05, unit="nats a token")
        values[f"recent_heads_{seed}"] = Value(int((rho[-1] > 0.5).sum()), tolerance=2, n=rho.shape[1])
        values[f"appears_{seed}"] = Value(settled(traces[0]["step"], rho), tolerance=200, unit="steps")
    frequency = torch.tensor(count_tokens(device).arrays["per_million"])
    ends = [locality.measure(folder, frequency, device) for folder in folders]
    arrays |= {name: np.stack([end[name] for end in ends]) for name in ends[0]}
    arrays["ladder"] = locality.measure_ladder(folders[0], device)
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    wide = dict.fromkeys(arrays, 0.5) | dict.fromkeys(("loss", "losses"), 1.0)
    wide |= dict.fromkeys((name for name in arrays if name.startswith(("rank", "size", "tilt", "tokens"))), 2.0)
    return Result(values, {"step": traces[0]["step"], **arrays}, wide | {"ladder": 1e-3})


def settled(steps: np.ndarray, rho: np.ndarray, above: float = 0.5) -> int:
    """Return the first probed step from which on at least half of the heads have ``rho > above``; -1 for none.

    >>> settled(np.array([0, 1, 2, 4]), np.array([[0.0], [0.9], [0.1], [0.9]]))
    4
    """
    below = (rho > above).mean(1) < 0.5
    after = int(np.flatnonzero(below).max(initial=-1)) + 1
    return int(steps[after]) if after < len(steps) else -1


EXPERIMENTS = {
    "token-counts": Experiment(
        models=("gpt2-mini",),
        compute=count_tokens,
        minutes=0.6,
        summary="How often each token of gpt2-mini occurs in its training text",
    ),
    "emergence": Experiment(
        models=("gpt2-mini",),
        compute=trace_seeds,
        minutes=25.0,
        seed=SEEDS[-1],
        summary="The semi-bias of seeds of gpt2-mini, head by head: at 60 steps of training, at its end, in controls",
    ),
}
