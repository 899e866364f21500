"""The one training of the classifier at the size of BERT_BASE: its loss, and what was seen at a few updates.

``python -m book train variant-bert-base --device cuda`` leaves the folder that is read here. Another GPU adds in
another order, so that another training takes another course: every number has a tolerance that holds anything.
"""

import json
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints
from book.publish.records import Experiment, Result, Value

ANYTHING = 1e9
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


def compute(device: torch.device) -> Result:
    """Read what the book's training left, wherever it lies."""
    return measure_folder(checkpoints.find("variant-bert-base").folder)


EXPERIMENT = Experiment(
    "The course of the one training of the variant classifier at the size of BERT_BASE",
    compute,
    models=("variant-bert-base",),
    minutes=0.1,
    seed=0,
)
