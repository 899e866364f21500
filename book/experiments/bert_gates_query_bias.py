"""Columns of MiniLM's maps with its query biases, without them, and with others, layer by layer on unchanged inputs."""

import numpy as np
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.statistics.intervals import mean_interval
from book.lab import bias_exchange
from book.lab.census import MOSTLY
from book.publish.records import Experiment, Result, Value

TEXTS, WORDS, SEED = 12, 200, 0


def compute(device: torch.device) -> Result:
    """Exchange the biases of MiniLM, and lend them to its control; shares of columns with intervals over texts."""
    found = checkpoints.find("minilm")
    model, control = (pretrained.load(found, control_seed=seed, device=device) for seed in (None, SEED))
    passages = texts.passages(longest=WORDS)[:TEXTS]
    trained, lent = bias_exchange.survey(model, control, pretrained.tokenizer(found), passages, SEED)
    values = {"maps_mostly": Value(int((trained[:, 0, ..., bias_exchange.DIRECTIONAL] >= MOSTLY).sum()), 20)}
    for name, by_text in bias_exchange.columns(trained, lent, MOSTLY).items():
        interval = mean_interval(by_text)
        values[name] = Value(round(interval.value, 9), 0.01, interval.low, interval.high, n=len(by_text))
    arrays = {"scores": trained.mean(0), "control_scores": lent.mean(0)}
    return Result(values, {name: a.astype(np.float32) for name, a in arrays.items()}, dict.fromkeys(arrays, 0.02))


EXPERIMENT = Experiment(
    summary="columns of MiniLM with its query biases, without them, and with others",
    models=("minilm",),
    compute=compute,
    minutes=3,
    seed=SEED,
)
