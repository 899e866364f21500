"""The two trainings of the classifier at the size of BERT_BASE: one left its course, one with care is measured as well.

``python -m book train variant-bert-base --device cuda`` leaves the folder that is read of the first. Another GPU adds
in another order, so that another training takes another course: every number has a tolerance that holds anything. The
measures are those of ``variant-measures``, on the first test sequence of each class.
"""

import json
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints, pretrained
from book.experiments import variant_measures
from book.lab.classifier_survey import Run, firsts
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value

ANYTHING = 1e9
SEED = 0
LIMIT = 240.0
"""Seconds of careful training: with the data before and the measures after it, all is done in seven minutes on an H100.
"""
PIECES = 240
"""Into so many pieces of equal length the losses are cut; of each the mean and the largest are kept."""
WINDOW, LEARNED, LOST = 50, 0.01, 0.5
"""The loss is a mean over so many updates: below the second number nats the classes are learned, above the third not.
"""


def course(losses: Float[np.ndarray, " update"]) -> tuple[int, int]:
    """Return the update from which the mean loss is small for the first time, and where it is large again after that.

    What does not happen happens at the end.

    >>> course(np.concatenate([np.full(100, 2.0), np.full(100, 0.001), np.full(100, 2.0)]))
    (100, 212)
    """
    means = np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")
    learned = _first(means < LEARNED, len(losses))
    return learned, min(_first(means[learned:] > LOST, len(losses)) + learned + WINDOW - 1, len(losses))


def _first(where: np.ndarray, otherwise: int) -> int:
    return int(where.argmax()) if where.any() else otherwise


def measure_folder(folder: Path, pieces: int = PIECES) -> Result:
    """Read what the training left."""
    card = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        losses = trace["loss"].astype(np.float64)
        looks = {name: trace[name] for name in ("step", "validation", "resultant")}
    parts = np.array_split(losses, pieces)
    learned, lost = course(losses)
    values = {name: Value(card[name], ANYTHING) for name in ("steps", "seconds", "ms_per_step", "test", "parameters")}
    values |= {
        "learned": Value(learned, ANYTHING),
        "lost": Value(lost, ANYTHING),
        "end_loss": Value(float(parts[-1].mean()), ANYTHING),
    }
    arrays = {"losses": np.array([[piece.mean(), piece.max()] for piece in parts]).T, **looks}
    return Result(values, arrays, dict.fromkeys(arrays, ANYTHING))


def read_training(device: torch.device) -> Result:
    """The course of the one training of the variant classifier at the size of BERT_BASE."""
    return measure_folder(checkpoints.find("variant-bert-base").folder)


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


def train_with_care(device: torch.device) -> Result:
    """The variant classifier at the size of BERT_BASE, trained with care, and the paper's figures on it."""
    recipe = dna_classifier.CAREFUL
    return measure(*train(recipe, device, dna_classifier.make_data(recipe, SEED)))


EXPERIMENTS = {
    "variant-classifier-base-training": Experiment(read_training, models=("variant-bert-base",), minutes=0.1, seed=0),
    "variant-classifier-careful-training": Experiment(train_with_care, minutes=7, seed=SEED, needs_gpu=True),
}
