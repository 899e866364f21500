"""The variant classifier with a short masked-k-mer pre-training: which gates need it?

The same architecture, sequences and updates as the bundled classifier, after some updates in which hidden words are
guessed. What is measured is what :mod:`book.experiments.variant_seeds` measures of the three seeds without it.
"""

from dataclasses import replace

import numpy as np
import torch

from book.experiments import variant_seeds
from book.lab import classifier_runs, classifier_survey
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value

UPDATES = 400
RECIPE = replace(dna_classifier.MINI, pretrain_steps=UPDATES)


def compute(device: torch.device) -> Result:
    """Evaluate and measure the pre-trained classifier, and keep the loss of its pre-training."""
    folder = classifier_runs.find_run("pretrained", recipe=RECIPE, device=device)
    values, arrays = variant_seeds.measure_folder(folder, 0, device)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        arrays["pretrain_loss"] = trace["pretrain_loss"].astype(np.float32)
    vocabulary = classifier_survey.open_run(folder).card["vocabulary"]
    values |= {
        "updates": Value(UPDATES),
        "vocabulary": Value(vocabulary),
        "pretrain_loss": Value(float(arrays["pretrain_loss"][-20:].mean()), 0.05, unit="nats"),
    }
    return Result(values, arrays, variant_seeds.tolerances(arrays) | {"pretrain_loss": 1e-2})


EXPERIMENT = Experiment(
    compute=compute,
    minutes=12,
    seed=0,
    summary="The variant classifier after a masked-k-mer pre-training: accuracy, training, gates and the measures",
)
