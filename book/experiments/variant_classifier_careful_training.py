"""The classifier at the size of BERT_BASE, trained with care: its course, and the paper's figures on it.

Another GPU adds in another order, so that another training takes another course: what a training ends with has a
tolerance that holds anything. The measures are those of ``variant-measures``, on the first test sequence of each class.
"""

from pathlib import Path

import numpy as np
import torch

from analysis.models import checkpoints, pretrained
from book.experiments import variant_measures
from book.experiments.variant_classifier_base_training import ANYTHING, PIECES
from book.lab.classifier_survey import Run, firsts
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value

SEED = 0
LIMIT = 240.0
"""Seconds of training: with the data before and the measures after it, all is done in seven minutes on an H100."""


def train(recipe: dna_classifier.Recipe, device: torch.device, data: dna_classifier.Data) -> tuple[Run, dict]:
    """Train one classifier, in ``runs``, and return it with its data and its trace."""
    folder = Path("runs", f"{recipe.name}-{SEED}")
    card = dna_classifier.train(recipe, folder, seed=SEED, device=device, data=data, limit=LIMIT)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        kept = dict(trace)
    return Run(
        pretrained.load(checkpoints.find(str(folder)), task="classifier", device=device), data, card, folder
    ), kept


def measure(run: Run, trace: dict[str, np.ndarray]) -> Result:
    """Put the course of the training beside what the trained classifier and its control show."""
    kinds = ("steps", "kept", "seconds", "ms_per_step", "validation", "test", "parameters", "final_loss")
    values = {name: Value(run.card[name] or 0, ANYTHING) for name in kinds}
    parts = [piece for piece in np.array_split(trace["loss"].astype(np.float64), PIECES) if len(piece)]
    arrays = {"losses": np.array([[piece.mean(), piece.max()] for piece in parts]).T}
    arrays |= {name: trace[name] for name in ("step", "validation", "validation_loss")}
    measured, shown = variant_measures.measure_genes(run, firsts(run.data), 1, pad_to=dna_classifier.POSITIONS)
    values |= {name: Value(each.value, ANYTHING) for name, each in shown.items()}
    return Result(values, arrays | measured, dict.fromkeys(arrays | measured, ANYTHING))


def compute(device: torch.device) -> Result:
    """Train and measure."""
    recipe = dna_classifier.CAREFUL
    return measure(*train(recipe, device, dna_classifier.make_data(recipe, SEED)))


EXPERIMENT = Experiment(
    "The variant classifier at the size of BERT_BASE, trained with care, and the paper's figures on it",
    compute,
    minutes=7,
    seed=SEED,
    needs_gpu=True,
)
