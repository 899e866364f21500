"""Query and key bias in trainings of neox-mini and gpt2-mini, and the kernels of the bundled neox-mini as arrows.

neox-mini has parallel blocks and three variants: all coordinates turned, a quarter of them, and no bias anywhere; in
gpt2-mini, beside it, the key bias cancels. Then with the MLP after attention, and at 6 layers and width 512. Another
machine rounds otherwise and its training drifts away from this one, so tolerances are wide.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from analysis.models import checkpoints, reading
from book.lab.rotary_ablation import COUNTED
from book.lab.rotary_kernels import spectrum_of
from book.lab.rotary_runs import RUNS, SEQUENTIAL, final_losses, measure_gpt2, measure_runs
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Result, Value

MODEL = "neox-mini"
WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""
KEPT = ("step", "held_out", "without", "previous_bias", "previous_mean")
"""What is kept of the measures at width 512, where queries and keys of every step take megabytes."""


def measure(
    device: torch.device, runs: Sequence[tuple[str, int]], within: float = 0.05, kept: Sequence[str] | None = None
) -> Result:
    """Train what is not yet trained, and measure every model: biases as they grow, and losses without parts.

    Losses are right ``within`` so many nats; of the other measures those are ``kept`` that are named, or all.
    """
    arrays = measure_runs(runs, gpt2_mini.read_corpus(), device)
    arrays = {name: arrays[name] for name in kept or arrays}
    losses = {name: Value(loss, within, unit="nats per token") for name, loss in final_losses(runs, arrays).items()}
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


def measure_beside_gpt2(device: torch.device) -> Result:
    """Measure the parallel variants, and gpt2-mini."""
    found, gpt2 = measure(device, RUNS), measure_gpt2(gpt2_mini.read_corpus(), device)
    return Result(found.values, found.arrays | gpt2, found.tolerances | dict.fromkeys(gpt2, WIDE))


def read_arrows(device: torch.device) -> Result:
    """Read the arrows, one per frequency and head, off what the bundled model's training left: of biases and means."""
    _, trace = gpt2_mini.read_trace(checkpoints.find(MODEL).folder)
    rotary = reading.load(MODEL).layers[0].positions
    length, angle = zip(*(spectrum_of(trace, source, rotary) for source in COUNTED), strict=True)
    arrays = {"length": np.stack(length), "angle": np.stack(angle), "turn": rotary.frequencies.numpy()}
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, single, dict.fromkeys(single, 1e-4))


def _medium(name: str, blocks: str) -> Experiment:
    return Experiment(
        f"What biases and mean input do in neox-mini at 6 layers and width 512, {blocks} blocks",
        partial(measure, runs=((name, 0),), within=0.2, kept=KEPT),
        minutes=4,
        seed=0,
        needs_gpu=True,
    )


EXPERIMENTS = {
    "rotary-bias-trainings": Experiment(
        "How query and key bias grow in neox-mini and its variants, and what the models lose without their parts",
        measure_beside_gpt2,
        models=("gpt2-mini",),
        minutes=90.0,
        seed=0,
    ),
    "rotary-bias-sequential": Experiment(
        "What biases and mean input do in neox-mini where the MLP follows attention",
        partial(measure, runs=SEQUENTIAL),
        minutes=30.0,
        seed=0,
    ),
    "rotary-bias-medium-parallel": _medium("neox-medium", "parallel"),
    "rotary-bias-medium-sequential": _medium("neox-medium-sequential", "sequential"),
    "rotary-bias-arrows": Experiment(
        "The kernels of neox-mini as arrows that turn", read_arrows, models=(MODEL,), minutes=0.1, seed=0
    ),
}
