"""When Pythia's kernels appear: the biases of one model at every checkpoint of its training, weights only."""

import numpy as np
import torch

from analysis.surveys.kernel_survey import survey_folder
from analysis.surveys.records import Experiment, Result, Value, data_folder

DATA = "pythia-160m-steps"
"""A folder with a folder ``stepN`` in the hub's layout for each revision of EleutherAI/pythia-160m."""


def compute(device: torch.device) -> Result:
    """Survey every step that is there."""
    folders = sorted(data_folder(DATA).glob("step*"), key=lambda folder: int(folder.name.removeprefix("step")))
    surveys = [survey_folder(folder) for folder in folders]
    arrays = {name: np.stack([survey[name] for survey in surveys]).astype(np.float32)
              for name in ("amplitude", "phase", "range", "cancelling")}
    steps = np.array([int(folder.name.removeprefix("step")) for folder in folders])
    return Result({"steps": Value(len(steps)), "range": Value(float(arrays["range"][-1].max()), 1e-3, unit="nats")},
                  {"step": steps, **arrays}, dict.fromkeys(arrays, 1e-3))


EXPERIMENT = Experiment("The kernels of Pythia-160M at every checkpoint of its training", compute, data=(DATA,),
                        minutes=10.0, awaits="the checkpoints of Pythia")
