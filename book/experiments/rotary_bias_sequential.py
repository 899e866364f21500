"""Trainings of neox-mini with the MLP after attention, three seeds, measured as the parallel ones are."""

import torch

from book.lab.rotary_runs import SEQUENTIAL, final_losses, measure_runs
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value

WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model: biases as they grow, and losses without parts.

    Another machine rounds otherwise and its training drifts away from this one, so tolerances are wide.
    """
    corpus = gpt2_mini.read_corpus()
    arrays = measure_runs(SEQUENTIAL, corpus, device)
    losses = {name: Value(loss, 0.05, unit="nats per token") for name, loss in final_losses(SEQUENTIAL, arrays).items()}
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


EXPERIMENT = Experiment(
    "What biases and mean input do in neox-mini where the MLP follows attention", compute, minutes=30.0, seed=0
)
