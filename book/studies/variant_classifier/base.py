"""The classifier at the size of BERT_BASE: its recipe, the one training, and what is drawn of it.

Its weights are not distributed. ``python -m book train variant-bert-base --device cuda`` trains them and leaves
them in ``runs``. The one training so far lost what it had learned (``base_training.py``), so that there is nothing to
measure yet. One sequence a class is measured.

``python -m book train variant-bert-base --device cuda`` leaves the folder that is read here. Another GPU adds in
another order, so that another training takes another course: every number has a tolerance that holds anything.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.lab.training import dna_classifier
from book.lab.training.dna_classifier import POSITIONS
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result, Value
from book.studies.shared import variant_measures

# ---- The full-size recipe: what its classifier is made of, read off the model that it builds


@dataclass(frozen=True)
class Recipe:
    """The classifier of a recipe, and how it is trained.

    ``dropout`` has the probabilities of all dropout layers, without repetitions; ``gelu_error`` is the largest
    difference of the activation from x Phi(x), with Phi the distribution function of the standard Gaussian.
    """

    layers: int
    heads: int
    width: int
    feed_forward: int
    positions: int
    dropout: tuple[float, ...]
    gelu_error: float
    batch: int
    steps: int
    warmup: int


def measure_recipe(recipe: dna_classifier.Recipe, data: dna_classifier.Data) -> Recipe:
    """Build the classifier of a recipe, without memory for its weights, and read its sizes."""
    from transformers import BertForSequenceClassification

    with torch.device("meta"):
        model = BertForSequenceClassification(dna_classifier.configure(recipe, data))
    return describe(model, recipe.batch, recipe.steps, recipe.warmup)


def describe(model: nn.Module, batch: int, steps: int, warmup: int) -> Recipe:
    """Read the sizes of a classifier."""
    layer = model.bert.encoder.layer[0]
    x = torch.linspace(-4, 4, 81)
    gelu_error = (layer.intermediate.intermediate_act_fn(x) - x * torch.special.ndtr(x)).abs().max()
    return Recipe(
        layers=len(model.bert.encoder.layer),
        heads=layer.attention.self.num_attention_heads,
        width=layer.attention.self.query.in_features,
        feed_forward=layer.intermediate.dense.out_features,
        positions=model.bert.embeddings.position_embeddings.num_embeddings,
        dropout=tuple(sorted({module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)})),
        gelu_error=float(gelu_error),
        batch=batch,
        steps=steps,
        warmup=warmup,
    )


# ---- The classifier at the size of BERT_BASE: its card, and the arrays of the same figures as for the small one

PER_CLASS, AMONG = 1, 200
"""Sequences of each class, found among so many of the test part."""
TOLD = ("steps", "seconds", "ms_per_step", "vocabulary", "parameters", "final_loss")
"""What is taken from the card as it is."""


def measure_folder(
    folder: Path, backbones: Path | None = None, device: torch.device | str = "cpu", *, pad_to: int = POSITIONS
) -> Result:
    """Measure a trained classifier's folder; its accuracies are those of its card, with exact intervals.

    ``backbones`` is what its sequences were simulated around, as for ``dna_classifier.make_data``.
    """
    run = variant_measures.open_run(folder, backbones, device)
    parts, card = run.data.parts, run.card
    some = replace(run.data, parts=replace(parts, test=parts.test[:AMONG]))
    arrays, values, _ = variant_measures.measure_run(replace(run, data=some), PER_CLASS, pad_to=pad_to)
    for name, part in (("validation", parts.validation), ("test", parts.test)):
        share = share_interval(round(card[name] * len(part)), len(part))
        values[name] = Value(card[name], 1e-9, share.low, share.high, len(part))
    values |= {name: Value(card[name]) for name in TOLD if card[name] is not None}
    values |= {
        "training_sequences": Value(len(parts.train)),
        "batch": Value(card["recipe"]["batch"]),
        "origin": Value(card["origin"]),
    }
    return Result(values, arrays, {name: variant_measures.tolerance(name) for name in arrays})


def compute_base(device: torch.device) -> Result:
    """Measure the trained classifier, wherever it lies; the book's is trained around the invented gene."""
    return measure_folder(checkpoints.find("variant-bert-base").folder, device=device)


# ---- The one training of the classifier at the size of BERT_BASE: its loss, and what was seen at a few updates

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


def compute_base_training(device: torch.device) -> Result:
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


EXPERIMENTS = {
    "base": Experiment(
        models=("variant-bert-base",),
        compute=compute_base,
        minutes=5,
        awaits="a training that keeps what it learned",
        summary="The variant classifier at the size of BERT_BASE: accuracy, and the measures on 8 sequences",
    ),
    "base-training": Experiment(
        "The course of the one training of the variant classifier at the size of BERT_BASE",
        compute_base_training,
        models=("variant-bert-base",),
        minutes=0.1,
        seed=0,
    ),
}
