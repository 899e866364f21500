"""The models with rotary positions, trained: how their biases grow, and what they lose without a part of the scores.

Three variants and several seeds of each: all coordinates turned, a quarter of them, and no bias anywhere; attention and
MLP are parallel. Beside them gpt2-mini, in which the key bias cancels.
"""

import torch

from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result
from book.studies.rotary_bias.runs import RUNS, measure_gpt2, measure_runs

WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model."""
    corpus = gpt2_mini.read_corpus()
    losses, arrays = measure_runs(RUNS, corpus, device)
    arrays |= measure_gpt2(corpus, device)
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


EXPERIMENT = Experiment(
    models=("gpt2-mini",),
    compute=compute,
    minutes=90.0,
    seed=0,
    summary="How query and key bias grow in neox-mini and its variants, and what the models lose without their parts",
)
