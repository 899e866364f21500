"""One training of neox-mini at 6 layers and width 512, parallel and sequential, measured as the small ones are."""

from functools import partial

import torch

from book.lab.rotary_runs import final_losses, measure_runs
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value

WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""
KEPT = ("step", "held_out", "without", "previous_bias", "previous_mean")
"""What is kept of the measures: queries and keys of every step take megabytes at this width."""


def compute(device: torch.device, name: str) -> Result:
    """Train the model where that has not been done, and measure its loss and its previous-token heads without parts."""
    runs = ((name, 0),)
    measured = measure_runs(runs, gpt2_mini.read_corpus(), device)
    arrays = {key: measured[key] for key in KEPT}
    losses = {name: Value(loss, 0.2, unit="nats per token") for name, loss in final_losses(runs, arrays).items()}
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


SUMMARY = "What biases and mean input do in neox-mini at 6 layers and width 512, {} blocks"
EXPERIMENTS = {
    "parallel": Experiment(
        SUMMARY.format("parallel"), partial(compute, name="neox-medium"), minutes=4, seed=0, needs_gpu=True
    ),
    "sequential": Experiment(
        SUMMARY.format("sequential"), partial(compute, name="neox-medium-sequential"), minutes=4, seed=0, needs_gpu=True
    ),
}
