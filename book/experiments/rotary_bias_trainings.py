"""Trainings of three variants of neox-mini with parallel blocks, three seeds each, and gpt2-mini beside them.

All coordinates turned, a quarter of them, and no bias anywhere; in gpt2-mini the key bias cancels.
"""

import torch

from book.lab.rotary_runs import RUNS, final_losses, measure_gpt2, measure_runs
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value

WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model: biases as they grow, and losses without parts.

    Another machine rounds otherwise and its training drifts away from this one, so tolerances are wide.
    """
    corpus = gpt2_mini.read_corpus()
    arrays = measure_runs(RUNS, corpus, device)
    losses = {name: Value(loss, 0.05, unit="nats per token") for name, loss in final_losses(RUNS, arrays).items()}
    arrays |= measure_gpt2(corpus, device)
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


EXPERIMENT = Experiment(
    "How query and key bias grow in neox-mini and its variants, and what the models lose without their parts",
    compute,
    models=("gpt2-mini",),
    minutes=90.0,
    seed=0,
)
