"""neox-mini with the MLP after attention, trained with three seeds: the measurements of ``trainings`` on it."""

import torch

from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result
from book.studies.rotary_bias.runs import SEQUENTIAL, measure_runs
from book.studies.rotary_bias.trainings import WIDE


def compute(device: torch.device) -> Result:
    """Train what is not yet trained, and measure every model."""
    losses, arrays = measure_runs(SEQUENTIAL, gpt2_mini.read_corpus(), device)
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


EXPERIMENT = Experiment(
    "What biases and mean input do in neox-mini where the MLP follows attention", compute, minutes=30.0, seed=0
)
