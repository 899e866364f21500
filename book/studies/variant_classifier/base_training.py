"""The one training of the classifier at the size of BERT_BASE: its loss, and what was seen at a few updates.

``python -m book train variant-bert-base --device cuda`` leaves the folder that is read here. Another GPU adds in
another order, so that another training takes another course: every number has a tolerance that holds anything.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.models import checkpoints
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result, Value

ANYTHING = 1e9
PIECES = 240
"""Into so many pieces of equal length the losses are cut; of each the mean and the largest are kept."""
WINDOW, LEARNED, LOST = 50, 0.01, 0.5
"""The loss is a mean over so many updates: below the second number nats the classes are learned, above the third not.
"""


@dataclass(frozen=True)
class BaseTraining(Numbers):
    """What the training did; numbers of updates are counted from 0.

    From ``learned`` to ``last_right`` all validation sequences that were looked at had the right class at every look;
    ``lost`` is the update at which the loss, having been small, was large again.
    """

    prefix = "base"
    updates: int
    minutes: str
    milliseconds: str
    machine: str
    learned: int
    last_right: int
    lost: int
    end_loss: float
    guess_loss: float
    test: str
    resultant: str
    losses: Float[np.ndarray, "statistic piece"]
    steps: Int[np.ndarray, " look"]
    validation: Float[np.ndarray, " look"]
    cone: Float[np.ndarray, "look layer"]


def course(losses: Float[np.ndarray, " update"]) -> tuple[int, int]:
    """Return the update from which the mean loss is small for the first time, and where it is large again after that.

    What does not happen happens at the end.

    >>> course(np.concatenate([np.full(100, 2.0), np.full(100, 0.001), np.full(100, 2.0)]))
    (100, 212)
    """
    means = np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")
    learned = _first(means < LEARNED, len(losses))
    return learned, min(_first(means[learned:] > LOST, len(losses)) + learned + WINDOW - 1, len(losses))


def last_right(steps: Int[np.ndarray, " look"], validation: Float[np.ndarray, " look"], learned: int) -> int:
    """Return the last look of those that follow ``learned`` without a wrong class; ``learned`` if there is none.

    >>> last_right(np.array([0, 5, 9, 12, 20]), np.array([0.1, 1.0, 1.0, 0.5, 1.0]), 4)
    9
    """
    after = steps[steps >= learned]
    return max((int(step) for step in after[: _first(validation[steps >= learned] < 1, len(after))]), default=learned)


def _first(where: np.ndarray, otherwise: int) -> int:
    return int(where.argmax()) if where.any() else otherwise


def compute(device: torch.device) -> Result:
    """Read what the training left."""
    folder = checkpoints.find("variant-bert-base").folder
    card = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        losses = trace["loss"].astype(np.float64)
        looks = {name: trace[name] for name in ("step", "validation", "resultant")}
    pieces = np.array_split(losses, PIECES)
    learned, lost = course(losses)
    values = {name: Value(card[name], ANYTHING) for name in ("steps", "seconds", "ms_per_step", "test", "parameters")}
    values |= {
        "learned": Value(learned, ANYTHING),
        "lost": Value(lost, ANYTHING),
        "end_loss": Value(float(pieces[-1].mean()), ANYTHING),
    }
    arrays = {"losses": np.array([[piece.mean(), piece.max()] for piece in pieces]).T, **looks}
    return Result(values, arrays, dict.fromkeys(arrays, ANYTHING))


def read_base_training(inputs: Inputs, classes: int) -> tuple[BaseTraining, str]:
    """Read the record, and the sentence that says where it is from."""
    record, sentence = live_or_record("variant-classifier-base-training", inputs, recompute=False)
    steps, validation, cone = (record.array(name) for name in ("step", "validation", "resultant"))
    return BaseTraining(
        updates=record["steps"],
        minutes=f"{record['seconds'] / 60:.1f}",
        milliseconds=f"{record['ms_per_step']:.0f}",
        machine=record.provenance["device"],
        learned=record["learned"],
        lost=record["lost"],
        last_right=last_right(steps, validation, record["learned"]),
        end_loss=record["end_loss"],
        guess_loss=float(np.log(classes)),
        test=percent(record["test"]),
        resultant=f"{cone[-1].min():.2f}",
        losses=record.array("losses"),
        steps=steps,
        validation=validation,
        cone=cone,
    ), sentence


EXPERIMENT = Experiment(
    "The course of the one training of the variant classifier at the size of BERT_BASE",
    compute,
    models=("variant-bert-base",),
    minutes=0.1,
    seed=0,
)
