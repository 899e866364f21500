"""The kernels of neox-mini, read off its biases, its LayerNorms and its mean inputs; no text but for the last."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.core.positions import Rotary, moved
from analysis.decomposition.rotary_kernel import Kernel, distance_kernel
from analysis.transformer.rotary_scaling import interpolate_positions, ntk_aware, yarn
from book.publish import Numbers

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
    peak: Int[np.ndarray, "source layer head"]
    heads: int
    range_bias: float  # the largest range of a kernel over the trained distances, in nats
    range_folded: float
    range_mean: float
    range_mean_low: float  # the smallest of the last layer, in nats
    near_bias: int  # heads whose kernel is largest at distance 0 to NEAR
    near_mean: int
    near_chance: float  # the mean number of such heads with random phases, and the largest of the draws
    near_chance_high: int
    trough_low: int  # distances at which the kernels of the mean input are lowest, in the heads of the last layer
    trough_high: int
    slowest_turn: float  # of the frequencies that carry most, the distance of half a turn
    slope_steep: float  # of the slow frequencies at distance 0, with the mean input, downwards, in nats per position
    slope_flat: float
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
        {source: _spectrum(trace, source, rotary) for source in SPECTRA},
        rotary.frequencies.double().numpy(force=True),
        longer,
        peak,
        heads=peak[0].size,
        range_bias=float(ranges(of["bias"]).max()),
        range_folded=float(ranges(of["bias_folded"]).max()),
        range_mean=float(ranges(of["mean"]).max()),
        range_mean_low=float(ranges(of["mean"])[-1].min()),
        near_bias=int((peak[0] <= NEAR).sum()),
        near_mean=int((peak[-1] <= NEAR).sum()),
        near_chance=float(chance.mean()),
        near_chance_high=int(chance.max()),
        trough_low=int(troughs.min()),
        trough_high=int(troughs.max()),
        slowest_turn=math.pi / float(rotary.frequencies[int(weight.argmax())]),
        slope_steep=float(-slopes.min()),
        slope_flat=float(-slopes.max()),
        first_peak=float(largest[: NEAR + 1].max()),
        later_peak=float(largest[later]),
        later_distance=later,
        fast_low=float(fast.min()),
        fast_high=float(fast.max()),
    )


def _spectrum(trace: Mapping[str, np.ndarray], source: str, rotary: Rotary) -> Spectrum:
    of = [kernel_of(trace, source, layer, rotary) for layer in range(trace["query_bias"].shape[1])]
    return np.stack([k.amplitude.numpy() for k in of]), np.stack([k.phase.numpy() for k in of])
