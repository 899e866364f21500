"""The gates of every head of MiniLM over 48 passages, and of its control over every fourth of them."""

from collections.abc import Sequence

import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.lab.census import summarise, take_census
from book.publish.records import Experiment, Result

SEED = 0


def compute(device: torch.device) -> Result:
    """Count gates in MiniLM and in its control, which reads every fourth text: its heads hardly differ."""
    passages = texts.passages()
    return count(checkpoints.find("minilm"), passages, passages[::4], device)


def count(
    checkpoint: checkpoints.Checkpoint, passages: Sequence[str], of_control: Sequence[str], device: torch.device
) -> Result:
    """Count gates in a trained model (no prefix) and in the same architecture with random weights (``control_``)."""
    tokenizer, values, arrays, tolerances = pretrained.tokenizer(checkpoint), {}, {}, {}
    for prefix, seed, some in (("", None, passages), ("control_", SEED, of_control)):
        model = pretrained.load(checkpoint, control_seed=seed, device=device)
        result = summarise(take_census(model, tokenizer, some), prefix)
        values |= result.values
        arrays |= result.arrays
        tolerances |= result.tolerances
    return Result(values, arrays, tolerances)


EXPERIMENT = Experiment(
    summary="gates of every head of MiniLM and of its control over 48 passages",
    models=("minilm",),
    compute=compute,
    minutes=3,
    seed=SEED,
)
