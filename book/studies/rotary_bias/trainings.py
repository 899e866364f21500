"""The models with rotary positions, trained: how their biases grow, and what they lose without a part of the scores.

Three variants and several seeds of each: all coordinates turned, a quarter of them, and no bias anywhere. Another
machine rounds otherwise and its run drifts away from this one, so the tolerances are wide: what has to repeat is the
finding. Beside them gpt2-mini, in which the key bias cancels.
"""

from pathlib import Path

import numpy as np
import torch

from analysis.core.files import claim_folder
from book.lab.rotary_probe import make_probe
from book.lab.training import gpt2_mini, neox_mini
from book.publish.records import Experiment, Result, Value
from book.studies.rotary_bias.run_measures import measure_gpt2, measure_run
from book.studies.rotary_bias.runs import RUNS


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model."""
    corpus = gpt2_mini.read_corpus()
    by_run = [measure_run(train(name, seed, corpus, device), corpus, device) for name, seed in RUNS]
    arrays = {key: np.stack([measured[key] for measured in by_run]).astype(np.float32) for key in by_run[0]}
    arrays["step"] = by_run[0]["step"].astype(np.int64)
    arrays |= measure_gpt2(corpus, device)
    values = {
        f"loss {name} {seed}": Value(float(arrays["held_out"][k, -1]), tolerance=0.05, unit="nats per token")
        for k, (name, seed) in enumerate(RUNS)
    }
    return Result(values, arrays, dict.fromkeys(arrays.keys() - {"step"}, 20.0))


def train(name: str, seed: int, corpus: gpt2_mini.Corpus, device: torch.device) -> Path:
    """Train one model where that has not been done, and return its folder."""
    out = Path("runs", f"rotary-bias-{name}-{seed}")
    with claim_folder(out, f"training of {name}"):
        neox_mini.train(out, name, seed=seed, device=str(device), probe=make_probe(corpus.windows), corpus=corpus)
    return out


EXPERIMENT = Experiment(
    models=("gpt2-mini",),
    compute=compute,
    minutes=90.0,
    seed=0,
    summary="How query and key bias grow in neox-mini and its variants, and what the models lose without their parts",
)
