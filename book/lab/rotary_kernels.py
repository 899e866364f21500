"""The kernels of neox-mini and its variants: of the biases, and of all that the inputs of a layer have in common.

What belongs here: kernels read off what a training left (:mod:`book.lab.rotary_probe`), how large they are, how many
prefer near keys by chance, and kernels with random phases. What does not: what a kernel is
(:mod:`analysis.decomposition.rotary_kernel`), and what the model loses without it (:mod:`book.lab.rotary_ablation`).
Arrays of a trace are ``(step, layer, head, channel)``, by source in the order of :data:`SOURCES`.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.positions import Rotary, moved
from analysis.decomposition.rotary_kernel import Kernel, distance_kernel

SOURCES = ("bias", "bias_folded", "mean")
"""The biases; with what the LayerNorm's bias adds; with what the mean input adds, the LayerNorm's bias included."""
DISTANCES = 128
"""Distances of the trained length."""
NEAR = 4
DRAWS = 2000
SLOW = 2 * math.pi / (4 * DISTANCES)
"""Radians per position below which a frequency makes less than a quarter turn within the trained length."""
HALF = 0.5
Curves = Float[np.ndarray, "layer head distance"]


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


def spectrum_of(trace: Mapping[str, np.ndarray], source: str, rotary: Rotary) -> tuple[np.ndarray, np.ndarray]:
    """Return amplitude and phase, ``(layer, head, frequency)``, of every kernel at the end of a training."""
    of = [kernel_of(trace, source, layer, rotary) for layer in range(trace["query_bias"].shape[1])]
    return np.stack([k.amplitude.numpy() for k in of]), np.stack([k.phase.numpy() for k in of])


def near_by_chance(
    amplitude: Float[np.ndarray, "*heads frequency"], frequencies: Float[np.ndarray, " frequency"], draws: int = DRAWS
) -> Int[np.ndarray, " draw"]:
    """Count the heads whose kernel is largest at a near distance, with the same amplitudes and random phases."""
    rng = np.random.default_rng(0)
    amplitude = amplitude.reshape(-1, len(frequencies))
    angle = np.arange(DISTANCES)[:, None] * frequencies
    counts = []
    for _ in range(draws):
        phase = rng.uniform(-np.pi, np.pi, amplitude.shape)
        # Re[(A e^{i phase}) e^{i angle}] as two products of matrices
        drawn = (amplitude * np.cos(phase)) @ np.cos(angle).T - (amplitude * np.sin(phase)) @ np.sin(angle).T
        counts.append((drawn.argmax(1) <= NEAR).sum())
    return np.array(counts)


def half_size(values: Float[np.ndarray, " time"]) -> int:
    """Return the index from which on all values are above half of the last one.

    >>> half_size(np.array([0.0, 9.0, 1.0, 3.0, 4.0]))
    3
    """
    below = np.flatnonzero(values < HALF * values[-1])
    return int(below.max(initial=-1)) + 1


def with_random_phases(kernel: Kernel, generator: torch.Generator) -> Kernel:
    """Return a kernel of the same amplitudes with phases drawn evenly."""
    phase = (2 * torch.rand(kernel.phase.shape, generator=generator, dtype=torch.float64) - 1) * torch.pi
    return Kernel(kernel.amplitude, phase.to(kernel.phase), kernel.frequencies, kernel.constant)


def spread_kernel(kernel: Kernel, positions: int) -> Tensor:
    """Write a kernel as scores: ``(head, query, key)``.

    >>> kernel = Kernel(torch.ones(1, 1), torch.zeros(1, 1), torch.tensor([torch.pi]), torch.zeros(1))
    >>> spread_kernel(kernel, 2).round().tolist()
    [[[1.0, -1.0], [-1.0, 1.0]]]
    """
    place = torch.arange(positions)
    distance = place[:, None] - place
    values = kernel.at(torch.arange(1 - positions, positions).to(kernel.phase))
    return values[:, distance + positions - 1]
