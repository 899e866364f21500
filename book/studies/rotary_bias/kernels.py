"""The kernels of mean inputs, and the arrows that turn in them.

Arrays are ``(source, layer, head, frequency)``, sources in the order of `SOURCES`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.core.positions import Rotary, moved
from analysis.decomposition.rotary_kernel import Kernel, distance_kernel
from analysis.models import checkpoints, reading
from analysis.transformer.rotary_scaling import interpolate_positions, ntk_aware, yarn
from book.lab.training import gpt2_mini
from book.publish import Numbers
from book.publish.records import Experiment, Record, Result

# ---- The kernels of neox-mini, read off its biases, its LayerNorms and its mean inputs

SOURCES = ("bias", "bias_folded", "mean")
"""The biases; with what the LayerNorm's bias adds; with what the mean input adds, the LayerNorm's bias included."""
DISTANCES, LONG = 128, 512
NEAR = 4
DRAWS = 2000
SLOW = 2 * math.pi / (4 * DISTANCES)
"""Radians per position below which a frequency makes less than a quarter turn within the trained length."""

SPECTRA = ("bias", "mean")
SCHEMES = ("as trained", "linear", "NTK", "YaRN")
"""Frequencies for longer texts: the trained ones, divided positions, another base, and YaRN's mixture."""

Curves = Float[np.ndarray, "layer head distance"]
Spectrum = tuple[Float[np.ndarray, "layer head frequency"], Float[np.ndarray, "layer head frequency"]]
"""Amplitude in nats and phase in radians of each frequency in each head."""
HALF = 0.5


@dataclass(frozen=True)
class Kernels(Numbers):
    """Kernels over distance by source, in nats less their mean over the trained distances; numbers of them.

    ``spectra`` holds amplitude and phase of what is in :data:`SPECTRA`; ``longer`` redraws the kernels of the mean
    input for other frequencies, by :data:`SCHEMES`.
    """

    prefix = "rb"

    curves: Mapping[str, Curves]
    spectra: Mapping[str, Spectrum]
    frequencies: Float[np.ndarray, " frequency"]
    longer: Mapping[str, Curves]
    largest: tuple[int, int]  # layer and head of the largest kernel of the mean input
    heads: int
    range_bias: float  # the largest range of a kernel over the trained distances, in nats
    range_folded: float
    range_mean: float
    range_mean_low: float  # the smallest of the last layer, in nats
    near_mean: int
    near_chance: float  # the mean number of such heads with random phases, and the largest of the draws
    near_chance_high: int
    trough_low: int  # distances at which the kernels of the mean input are lowest, in the heads of the last layer
    trough_high: int
    slowest_turn: float  # of the frequencies that carry most, the distance of half a turn
    slope_steep: float  # of the slow frequencies at distance 0, with the mean input, downwards, in nats per position
    first_peak: float  # of the largest kernel, less its mean: at the nearest distances, and beyond the trained length
    later_peak: float
    later_distance: int
    fast_low: float  # the distances that the fastest frequency prefers, in the heads of the last layer
    fast_high: float
    near: int = NEAR
    draws: int = DRAWS


def kernel_of(trace: Mapping[str, np.ndarray], source: str, layer: int, rotary: Rotary, step: int = -1) -> Kernel:
    """Return a layer's kernels at one look of a training, on the CPU, where the trace is."""
    query, key = (torch.from_numpy(trace[f"{part}_{source}"][step, layer]).double() for part in ("query", "key"))
    return distance_kernel(query, key, moved(rotary, "cpu"))


def curves(
    trace: Mapping[str, np.ndarray], source: str, rotary: Rotary, *, length: int = DISTANCES, step: int = -1
) -> Curves:
    """Return the kernels of every layer over distance, less their mean over the trained distances."""
    distances = torch.arange(length, dtype=torch.float64)
    layers = range(trace["query_bias"].shape[1])
    values = torch.stack([kernel_of(trace, source, layer, rotary, step).at(distances) for layer in layers])
    return (values - values[..., :DISTANCES].mean(-1, keepdim=True)).numpy()


def ranges(of: Curves) -> Float[np.ndarray, "layer head"]:
    """Return the largest less the smallest value over the trained distances, in nats."""
    return np.ptp(of[..., :DISTANCES], axis=-1)


def near_by_chance(kernels: Mapping[str, np.ndarray], draws: int = DRAWS) -> Int[np.ndarray, " draw"]:
    """Count the heads whose kernel is largest at a near distance, with the same amplitudes and random phases."""
    rng = np.random.default_rng(0)
    amplitude = kernels["amplitude"].reshape(-1, len(kernels["frequencies"]))
    angle = np.arange(DISTANCES)[:, None] * kernels["frequencies"]
    counts = []
    for _ in range(draws):
        phase = rng.uniform(-np.pi, np.pi, amplitude.shape)
        # Re[(A e^{i phase}) e^{i angle}] as two products of matrices
        drawn = (amplitude * np.cos(phase)) @ np.cos(angle).T - (amplitude * np.sin(phase)) @ np.sin(angle).T
        counts.append((drawn.argmax(1) <= NEAR).sum())
    return np.array(counts)


def measure_kernels(trace: Mapping[str, np.ndarray], rotary: Rotary) -> Kernels:
    """Read the kernels at the end of a training."""
    of = {source: curves(trace, source, rotary) for source in SOURCES}
    layers = range(trace["query_bias"].shape[1])
    mean = [kernel_of(trace, "mean", layer, rotary) for layer in layers]
    peak = np.stack([values.argmax(-1) for values in of.values()])
    chance = near_by_chance(
        {
            "amplitude": np.stack([k.amplitude.numpy() for k in mean]),
            "frequencies": rotary.frequencies.double().numpy(force=True),
        }
    )
    factor = LONG / DISTANCES
    scaled = dict(
        zip(
            SCHEMES,
            (rotary, interpolate_positions(rotary, factor), ntk_aware(rotary, factor), yarn(rotary, factor, DISTANCES)),
            strict=True,
        )
    )
    slopes = torch.stack([k.slope(slower_than=SLOW) for k in mean]).numpy()
    weight = np.stack([k.amplitude.numpy() for k in mean]).sum((0, 1))
    troughs, fast = of["mean"][-1].argmin(-1), mean[-1].preferred()[:, 0]
    longer = {name: curves(trace, "mean", other, length=LONG) for name, other in scaled.items()}
    largest = longer[SCHEMES[0]].reshape(-1, LONG)[int(ranges(of["mean"]).argmax())]
    later = DISTANCES + int(largest[DISTANCES:].argmax())
    return Kernels(
        of,
        {source: spectrum_of(trace, source, rotary) for source in SPECTRA},
        rotary.frequencies.double().numpy(force=True),
        longer,
        divmod(int(ranges(of["mean"]).argmax()), peak.shape[-1]),
        heads=peak[0].size,
        range_bias=float(ranges(of["bias"]).max()),
        range_folded=float(ranges(of["bias_folded"]).max()),
        range_mean=float(ranges(of["mean"]).max()),
        range_mean_low=float(ranges(of["mean"])[-1].min()),
        near_mean=int((peak[-1] <= NEAR).sum()),
        near_chance=float(chance.mean()),
        near_chance_high=int(chance.max()),
        trough_low=int(troughs.min()),
        trough_high=int(troughs.max()),
        slowest_turn=math.pi / float(rotary.frequencies[int(weight.argmax())]),
        slope_steep=float(-slopes.min()),
        first_peak=float(largest[: NEAR + 1].max()),
        later_peak=float(largest[later]),
        later_distance=later,
        fast_low=float(fast.min()),
        fast_high=float(fast.max()),
    )


def spectrum_of(trace: Mapping[str, np.ndarray], source: str, rotary: Rotary) -> Spectrum:
    """Return amplitude and phase of every head's kernel at the end of a training."""
    of = [kernel_of(trace, source, layer, rotary) for layer in range(trace["query_bias"].shape[1])]
    return np.stack([k.amplitude.numpy() for k in of]), np.stack([k.phase.numpy() for k in of])


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
    )


def half_size(values: Float[np.ndarray, " time"]) -> int:
    """Return the index from which on all values are above half of the last one.

    >>> half_size(np.array([0.0, 9.0, 1.0, 3.0, 4.0]))
    3
    """
    below = np.flatnonzero(values < HALF * values[-1])
    return int(below.max(initial=-1)) + 1


# ---- The kernels of neox-mini as arrows, one per frequency and head, for the viewer: of the biases and of the means

MODEL = "neox-mini"
ARROWS = ("bias", "mean")
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
    length, angle = zip(*(spectrum_of(trace, source, rotary) for source in ARROWS), strict=True)
    arrays = {"length": np.stack(length), "angle": np.stack(angle), "turn": rotary.frequencies.numpy()}
    single = {name: values.astype(np.float32) for name, values in arrays.items()}
    return Result({}, single, dict.fromkeys(single, 1e-4))


EXPERIMENTS = {
    "arrows": Experiment("The kernels of neox-mini as arrows that turn", compute, models=(MODEL,), minutes=0.1, seed=0)
}
