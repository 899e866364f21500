"""Seeds of gpt2-mini: the bundled one, and others that are trained where they do not lie already.

A folder is looked for in ``ANALYSIS_RUNS``, then in ``runs``; what an interruption left there is gone on from.
"""

import os
from pathlib import Path

import torch

from analysis.core.files import claim_folder
from analysis.models import checkpoints
from book.lab.semi_bias_probe import semi_bias_probe
from book.lab.training import gpt2_mini

RUNS = "ANALYSIS_RUNS"
SEEDS = range(5)


def find_run(seed: int, device: torch.device | str = "cpu") -> Path:
    """Return the folder of the gpt2-mini of one seed; train it if there is none.

    Raises
    ------
    Refused
        If a folder of its name holds something else.
    ValueError
        If the folder holds another seed, or a training of another length.
    """
    if seed == 0:
        return checkpoints.find(gpt2_mini.NAME).folder
    places = [Path(parent, f"{gpt2_mini.NAME}-{seed}") for parent in (os.environ.get(RUNS), "runs") if parent]
    for place in places:
        if (place / "trace.npz").exists():
            return _expect(place, seed)
    with claim_folder(places[-1], f"training of {gpt2_mini.NAME}"):
        gpt2_mini.train(places[-1], seed=seed, device=str(device), probe=semi_bias_probe)
    return places[-1]


def _expect(place: Path, seed: int) -> Path:
    card, _ = gpt2_mini.read_trace(place)
    if (card["seed"], card["steps"]) != (seed, gpt2_mini.STEPS):
        raise ValueError(
            f"{place} holds seed {card['seed']} after {card['steps']} steps, not seed {seed} after {gpt2_mini.STEPS}"
        )
    return place
