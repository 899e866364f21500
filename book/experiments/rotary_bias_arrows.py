"""The kernels of neox-mini as arrows, one per frequency and head, for the viewer: of the biases and of the means."""

import numpy as np
import torch

from analysis.models import checkpoints, reading
from book.lab.rotary_ablation import COUNTED
from book.lab.rotary_kernels import spectrum_of
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result

MODEL = "neox-mini"


def compute(device: torch.device) -> Result:
    """Read the arrows off what the bundled model's training left."""
    checkpoint = checkpoints.find(MODEL)
    _, trace = gpt2_mini.read_trace(checkpoint.folder)
    rotary = reading.load(MODEL).layers[0].positions
    length, angle = zip(*(spectrum_of(trace, source, rotary) for source in COUNTED), strict=True)
    arrays = {"length": np.stack(length), "angle": np.stack(angle), "turn": rotary.frequencies.numpy()}
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, single, dict.fromkeys(single, 1e-4))


EXPERIMENT = Experiment("The kernels of neox-mini as arrows that turn", compute, models=(MODEL,), minutes=0.1, seed=0)
