"""The kernels of every trained model, read off the vectors that its record keeps: all seeds and variants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.core.positions import Rotary
from analysis.transformer.rotary_scaling import rotary_frequencies
from book.lab.training import gpt2_mini, neox_mini
from book.publish import Numbers
from book.publish.records import Record
from book.studies.rotary_bias.emergence import half_size
from book.studies.rotary_bias.kernels import NEAR, Curves, curves, kernel_of, near_by_chance, ranges
from book.studies.rotary_bias.run_measures import TRACED
from book.studies.rotary_bias.runs import RUNS, seeds_of

CHANNEL = gpt2_mini.WIDTH // gpt2_mini.HEADS
SHOWN = ("bias", "mean")


@dataclass(frozen=True)
class SeedKernels(Numbers):
    """Kernels over distance of each run by source, in nats less their mean over the trained distances.

    ``near`` counts a run's heads whose kernel of the mean input is largest at distance 0 to ``kernels.NEAR``, and
    ``near_high`` is the largest count of so many draws of random phases; ``size`` is the range of each kernel.
    """

    prefix = "rb"

    of_runs: Mapping[str, tuple[Curves, ...]]
    near: Int[np.ndarray, " run"]
    near_high: Int[np.ndarray, " run"]
    size: Mapping[str, Float[np.ndarray, "run layer head"]]
    near_low: int  # over all runs
    near_most: int
    near_chance_most: int
    bias_range_low: float  # the largest kernel of the biases in a run with biases: the smallest and largest over runs
    bias_range_high: float
    mean_range_low: float  # the same for the mean input, over all runs
    mean_range_high: float
    full_range_high: float  # the largest of neox-mini, and of neox-mini-partial
    partial_range_high: float
    biased_runs: int
    half_bias_low: int  # the step from which layer 0's median kernel of the biases has half its last size, for good
    half_bias_high: int
    half_mean_low: int  # the same of the mean input in the last layer
    half_mean_high: int
    last_range_low: float  # the smallest kernel of the mean input in a last layer
    rest_bias: float  # of neox-mini-partial, the share of the key bias's squared length that nothing turns
    rest_mean: float  # the same of the mean key


def rotary_of(name: str) -> Rotary:
    """Return how a variant turns its queries and keys.

    >>> [rotary_of(name).coordinates for name in ("neox-mini", "neox-mini-partial")]
    [16, 4]
    """
    return Rotary(rotary_frequencies(round(CHANNEL * neox_mini.VARIANTS[name].rotary)), CHANNEL)


def measure_seed_kernels(record: Record) -> SeedKernels:
    """Read the kernels at the end of every training."""
    traces = [{name: record.array(name)[k] for name in TRACED} for k in range(len(RUNS))]
    turns = [rotary_of(name) for name, _ in RUNS]
    of = {
        source: tuple(curves(trace, source, rotary) for trace, rotary in zip(traces, turns, strict=True))
        for source in SHOWN
    }
    size = {source: np.stack([ranges(values) for values in of[source]]) for source in SHOWN}
    near = np.array([int((values.argmax(-1) <= NEAR).sum()) for values in of["mean"]])
    high = np.array([_chance(trace, rotary) for trace, rotary in zip(traces, turns, strict=True)])
    biased = seeds_of("neox-mini") + seeds_of("neox-mini-partial")
    largest = {source: size[source].max((1, 2)) for source in SHOWN}
    half = {
        source: [_half_step(traces[k], record.array("step"), turns[k], source, layer) for k in biased]
        for source, layer in (("bias", 0), ("mean", -1))
    }
    rest = {kind: _rest_length([traces[k][f"key_{kind}"][-1] for k in seeds_of("neox-mini-partial")]) for kind in SHOWN}
    return SeedKernels(
        of,
        near,
        high,
        size,
        near_low=int(near.min()),
        near_most=int(near.max()),
        near_chance_most=int(high.max()),
        bias_range_low=float(largest["bias"][biased].min()),
        bias_range_high=float(largest["bias"][biased].max()),
        mean_range_low=float(largest["mean"].min()),
        mean_range_high=float(largest["mean"].max()),
        full_range_high=float(largest["mean"][seeds_of("neox-mini")].max()),
        partial_range_high=float(largest["mean"][seeds_of("neox-mini-partial")].max()),
        last_range_low=float(size["mean"][:, -1].min()),
        biased_runs=len(biased),
        half_bias_low=min(half["bias"]),
        half_bias_high=max(half["bias"]),
        half_mean_low=min(half["mean"]),
        half_mean_high=max(half["mean"]),
        rest_bias=rest["bias"],
        rest_mean=rest["mean"],
    )


def _half_step(trace: Mapping[str, np.ndarray], steps: np.ndarray, rotary: Rotary, source: str, layer: int) -> int:
    """Return the step from which a layer's median kernel has half of its last size, for good."""
    sizes = [np.median(ranges(curves(trace, source, rotary, step=i))[layer]) for i in range(len(steps))]
    return int(steps[half_size(np.array(sizes))])


def _rest_length(keys: Sequence[np.ndarray]) -> float:
    """Return what share of the keys' squared length lies in coordinates that neox-mini-partial does not turn."""
    turned = rotary_of("neox-mini-partial").coordinates
    return float(np.square(np.stack(keys)[..., turned:]).sum() / np.square(keys).sum())


def _chance(trace: Mapping[str, np.ndarray], rotary: Rotary) -> int:
    amplitude = [kernel_of(trace, "mean", layer, rotary).amplitude for layer in range(trace["query_mean"].shape[1])]
    drawn = near_by_chance(
        {"amplitude": torch.stack(amplitude).numpy(), "frequencies": rotary.frequencies.double().numpy()}
    )
    return int(drawn.max())
