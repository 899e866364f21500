"""The census of MiniLM on the bundled passages, and of its control."""

import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.surveys.census import summarise, take_census
from book.publish.records import Experiment, Result

SEED = 0


def compute(device: torch.device) -> Result:
    """Count gates in the trained model (no prefix) and in the same architecture with random weights (``control_``).

    The control, whose heads hardly differ, reads every fourth text.
    """
    found = checkpoints.find("minilm")
    tokenizer, passages = pretrained.tokenizer(found), texts.passages()
    values, arrays, tolerances = {}, {}, {}
    for prefix, seed, some in (("", None, passages), ("control_", SEED, passages[::4])):
        model = pretrained.load(found, control_seed=seed, device=device)
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
