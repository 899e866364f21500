"""The classifier at the size of BERT_BASE: its card, and the arrays of the same figures as for the small one.

Its weights are not distributed. ``python -m book train variant-bert-base --device cuda`` trains them and leaves
them in ``runs``. The one training so far lost what it had learned (``variant_classifier_base_training.py``), so that
there is nothing to measure yet. One sequence a class is measured.
"""

from dataclasses import replace
from pathlib import Path

import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.experiments.variant_measures import measure_run, tolerance
from book.lab.classifier_survey import open_run
from book.lab.training.dna_classifier import POSITIONS
from book.publish.records import Experiment, Result, Value

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
    run = open_run(folder, backbones, device)
    parts, card = run.data.parts, run.card
    some = replace(run.data, parts=replace(parts, test=parts.test[:AMONG]))
    arrays, values, _ = measure_run(replace(run, data=some), PER_CLASS, pad_to=pad_to)
    for name, part in (("validation", parts.validation), ("test", parts.test)):
        share = share_interval(round(card[name] * len(part)), len(part))
        values[name] = Value(card[name], 1e-9, share.low, share.high, len(part))
    values |= {name: Value(card[name]) for name in TOLD if card[name] is not None}
    values |= {
        "training_sequences": Value(len(parts.train)),
        "batch": Value(card["recipe"]["batch"]),
        "origin": Value(card["origin"]),
    }
    return Result(values, arrays, {name: tolerance(name) for name in arrays})


def compute(device: torch.device) -> Result:
    """Measure the trained classifier, wherever it lies; the book's is trained around the invented gene."""
    return measure_folder(checkpoints.find("variant-bert-base").folder, device=device)


EXPERIMENT = Experiment(
    models=("variant-bert-base",),
    compute=compute,
    minutes=5,
    awaits="a training that keeps what it learned",
    summary="The variant classifier at the size of BERT_BASE: accuracy, and the measures on 8 sequences",
)
