"""When the kernel appears in training, beside the loss, and what taking the biases away costs at each look."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from analysis.core.positions import Rotary
from book.publish import Numbers
from book.studies.rotary_bias.kernels import curves, ranges

HALF = 0.5


@dataclass(frozen=True)
class Emergence(Numbers):
    """Ranges of the kernels in the course of a training, in nats, of the bundled seed.

    ``sizes`` is the range of the median head by source and layer.
    """

    prefix = "rb"

    step: Int[np.ndarray, " time"]
    held_out: Float[np.ndarray, " time"]
    sizes: Mapping[str, Float[np.ndarray, "time layer"]]
    without_query: Float[np.ndarray, " time"]  # the rise of the loss without b_Q, and without b_K
    without_key: Float[np.ndarray, " time"]
    half_bias: int  # the step from which the kernel of the biases in layer 0 has half of its last size, for good
    half_mean_last: int  # the same for that of the mean input in the last layer
    half_bias_loss: float
    half_mean_last_loss: float
    early_range: float  # the largest kernel of the biases at step 400 or the look before it
    early_step: int
    start_mean: float  # the median kernel of the mean input in layer 0 before training


def measure_emergence(trace: Mapping[str, np.ndarray], rotary: Rotary) -> Emergence:
    """Read the growth of the kernels off a trace."""
    step, held_out = trace["step"], trace["held_out"]
    by_step = {
        source: np.stack([ranges(curves(trace, source, rotary, step=i)) for i in range(len(step))])
        for source in ("bias", "mean")
    }
    sizes = {source: np.median(values, -1) for source, values in by_step.items()}
    half = {"bias": half_size(sizes["bias"][:, 0]), "mean": half_size(sizes["mean"][:, -1])}
    early = int(np.flatnonzero(step <= 400)[-1])
    return Emergence(
        step,
        held_out,
        sizes,
        trace["held_out_no_query_bias"] - held_out,
        trace["held_out_no_key_bias"] - held_out,
        half_bias=int(step[half["bias"]]),
        half_mean_last=int(step[half["mean"]]),
        half_bias_loss=float(held_out[half["bias"]]),
        half_mean_last_loss=float(held_out[half["mean"]]),
        early_range=float(by_step["bias"][early].max()),
        early_step=int(step[early]),
        start_mean=float(sizes["mean"][0, 0]),
    )


def half_size(values: Float[np.ndarray, " time"]) -> int:
    """Return the index from which on all values are above half of the last one.

    >>> half_size(np.array([0.0, 9.0, 1.0, 3.0, 4.0]))
    3
    """
    below = np.flatnonzero(values < HALF * values[-1])
    return int(below.max(initial=-1)) + 1
