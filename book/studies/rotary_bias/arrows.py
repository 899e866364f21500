"""The kernels of neox-mini as arrows, one per frequency and head, for the viewer: of the biases and of the means.

Arrays are ``(source, layer, head, frequency)``, sources in the order of `SOURCES`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints, reading
from book.lab.training import gpt2_mini
from book.publish.records import Experiment, Record, Result
from book.studies.rotary_bias.kernels import spectrum_of

MODEL = "neox-mini"
SOURCES = ("bias", "mean")
LAYER, HEAD, DISTANCE = 1, 7, 1
"""What the static picture shows."""


@dataclass(frozen=True)
class Arrows:
    """One head's arrows at distance 0: lengths in nats, angles in radians, turn in radians per position."""

    length: Float[np.ndarray, " frequency"]
    angle: Float[np.ndarray, " frequency"]
    turn: Float[np.ndarray, " frequency"]

    def start(self) -> dict[str, int]:
        """Return what the viewer shows at first."""
        return {"distance": 0, "source": 1, "random": 0, "layer": LAYER, "head": HEAD}


def arrows(record: Record | Result) -> Arrows:
    """Read what the static picture shows: the arrows of the mean query and the mean key."""
    length, angle = (record.array(name)[1, LAYER, HEAD].astype(float) for name in ("length", "angle"))
    return Arrows(length, angle, record.array("turn").astype(float))


def compute(device: torch.device) -> Result:
    """Read the arrows off what the bundled model's training left."""
    checkpoint = checkpoints.find(MODEL)
    _, trace = gpt2_mini.read_trace(checkpoint.folder)
    rotary = reading.load(MODEL).layers[0].positions
    length, angle = zip(*(spectrum_of(trace, source, rotary) for source in SOURCES), strict=True)
    arrays = {"length": np.stack(length), "angle": np.stack(angle), "turn": rotary.frequencies.numpy()}
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, single, dict.fromkeys(single, 1e-4))


EXPERIMENT = Experiment("The kernels of neox-mini as arrows that turn", compute, models=(MODEL,), minutes=0.1, seed=0)
