"""What the recorded trainings say: losses and kernels, seeds and variants side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.core.positions import Rotary
from analysis.transformer.rotary_scaling import rotary_frequencies
from book.lab.training import gpt2_mini, neox_mini
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record
from book.studies.rotary_bias.heads import count_strong
from book.studies.rotary_bias.kernels import NEAR, Curves, curves, half_size, kernel_of, near_by_chance, ranges
from book.studies.rotary_bias.parts import COUNTED, PARTS, WAYS
from book.studies.rotary_bias.runs import LENGTHS, LONG_TOKENS, RUNS, SCALINGS, SEQUENTIAL, TRACED, seeds_of

CHANNEL = gpt2_mini.WIDTH // gpt2_mini.HEADS
SHOWN = ("bias", "mean")
WHOLE = list(WAYS).index("whole")
SPREADS = {
    "rise_key": ("neox-mini", "bias", "no key bias"),
    "rise_both": ("neox-mini", "bias", "content only"),
    "mean_kernel": ("neox-mini", "mean", "no kernel"),
    "unbiased_kernel": ("neox-mini-unbiased", "mean", "no kernel"),
}
"""Names of numbers on the page: the rise of which variant's loss without what, counted from where."""


@dataclass(frozen=True)
class Seeds(Numbers):
    """Losses in nats per token on held-out text; arrays are by run, in the order of ``runs``.

    ``rise`` is that of the loss when parts are left out, by what they are counted from; ``rise_piece`` that without the
    coordinates of the key vector that are turned, and without the others; ``shares`` ends with the part that nothing
    turns.
    """

    prefix = "rb"

    runs: tuple[tuple[str, int], ...]
    rise: Float[np.ndarray, "run counted way"]
    rise_piece: Float[np.ndarray, "run counted piece"]
    shares: Float[np.ndarray, "run counted layer head part"]
    gpt2_rise: Float[np.ndarray, "counted way"]
    run_count: int
    seeds: int  # of each variant
    loss_low: float  # of all runs
    loss_high: float
    rise_key_low: float  # without b_K, over the seeds of neox-mini
    rise_key_high: float
    rise_both_low: float  # without both
    rise_both_high: float
    mean_kernel_low: float  # without the kernel of the mean input
    mean_kernel_high: float
    unbiased_kernel_low: float
    unbiased_kernel_high: float
    turned_piece_low: float  # of neox-mini-partial, without the turned coordinates of the mean key
    gpt2_query: float  # gpt2-mini without b_Q
    longer_biased_low: float  # by how much the loss rises from 128 to 1,024 tokens
    longer_biased_high: float
    longer_unbiased_low: float
    longer_unbiased_high: float
    longer_partial_low: float
    longer_partial_high: float
    yarn_gain_low: float  # by how much YaRN's frequencies lower the loss at four times the trained length
    yarn_gain_high: float
    length_first: int = LENGTHS[0]
    length_last: int = LENGTHS[-1]
    length_tokens: int = LONG_TOKENS - 1  # that each length is measured on, from the start of the held-out text
    windows: int = gpt2_mini.WINDOWS  # that all other losses are measured on, spread over the held-out text


def measure_seeds(inputs: Inputs) -> tuple[Seeds, Record, str]:
    """Read the record of the trainings; nothing is trained for a page."""
    record, sentence = live_or_record("rotary-bias-trainings", inputs, recompute=False)
    without, longer, gpt2 = (record.array(name) for name in ("without", "longer", "gpt2_without"))
    rise = without - without[..., WHOLE : WHOLE + 1]
    piece = record.array("without_piece") - without[..., WHOLE : WHOLE + 1]
    full, part, bare = (seeds_of(name) for name in ("neox-mini", "neox-mini-partial", "neox-mini-unbiased"))
    stretched = record.array("stretched")[..., 0]
    gain = stretched[:, SCALINGS.index("as trained")] - stretched[:, SCALINGS.index("YaRN")]
    grow = longer[:, -1, 0] - longer[:, 0, 0]
    numbers: dict[str, float] = {}
    for name, (variant, counted, way) in SPREADS.items():
        values = rise[seeds_of(variant), COUNTED.index(counted), list(WAYS).index(way)]
        numbers |= {f"{name}_low": float(values.min()), f"{name}_high": float(values.max())}
    for name, runs in (("biased", full), ("unbiased", bare), ("partial", part)):
        numbers |= {f"longer_{name}_low": float(grow[runs].min()), f"longer_{name}_high": float(grow[runs].max())}
    turned, loss = piece[part, COUNTED.index("mean"), 0], record.array("held_out")[:, -1]
    return (
        Seeds(
            RUNS,
            rise,
            piece,
            record.array("shares"),
            gpt2 - gpt2[:, WHOLE : WHOLE + 1],
            run_count=len(RUNS),
            seeds=len(full),
            loss_low=float(loss.min()),
            loss_high=float(loss.max()),
            **numbers,
            turned_piece_low=float(turned.min()),
            gpt2_query=float(gpt2[0, list(WAYS).index("no query bias")] - gpt2[0, WHOLE]),
            yarn_gain_low=float(gain.min()),
            yarn_gain_high=float(gain.max()),
        ),
        record,
        sentence,
    )


def mean_shares(shares: Float[np.ndarray, "*run layer head part"]) -> Float[np.ndarray, "*run layer part"]:
    """Return what each of the four parts explains of the divergence of a layer's heads together.

    >>> mean_shares(np.ones((1, 2, 2, 8, 5))).round(2).tolist()[0][0][0]
    [0.25, 0.25, 0.25, 0.25]
    """
    by_layer = shares[..., : len(PARTS)].sum(-2)
    return by_layer / by_layer.sum(-1, keepdims=True)


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
    mean_range_high: float
    biased_runs: int
    half_bias_low: int  # the step from which layer 0's median kernel of the biases has half its last size, for good
    half_bias_high: int
    half_mean_low: int  # the same of the mean input in the last layer
    half_mean_high: int
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
        mean_range_high=float(largest["mean"].max()),
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


@dataclass(frozen=True)
class Order(Numbers):
    """The same where the MLP follows attention, as in Llama: neox-mini-sequential, arrays by seed.

    ``rise`` and ``size`` as in `Seeds` and `SeedKernels`.
    """

    prefix = "rb-order"

    rise: Float[np.ndarray, "run counted way"]
    size: Mapping[str, Float[np.ndarray, "run layer head"]]
    of_runs: Mapping[str, tuple[Curves, ...]]
    seeds: int
    loss_low: float
    loss_high: float
    rise_key_low: float
    rise_key_high: float
    rise_both_low: float
    rise_both_high: float
    mean_kernel_low: float
    mean_kernel_high: float
    bias_range_low: float  # the largest kernel of the biases, over seeds
    bias_range_high: float
    parallel_range_low: float  # the same in neox-mini
    parallel_range_high: float
    share_first: float  # in layer 0, the median head's kernel of the biases as a share of that of the mean input
    parallel_share_first: float
    strong_heads: int  # previous-token heads, and how many are left without each kernel
    strong_left_bias: int
    strong_left_mean: int
    strong_left_semi: int  # and without the semi-bias and the query side of the mean input
    strong_left_side: int


ORDERED = {
    "rise_key": ("bias", "no key bias"),
    "rise_both": ("bias", "content only"),
    "mean_kernel": ("mean", "no kernel"),
}


def measure_order(inputs: Inputs, parallel: SeedKernels) -> tuple[Order, str]:
    """Read the record of the trainings whose MLP follows attention."""
    record, sentence = live_or_record("rotary-bias-sequential", inputs, recompute=False)
    without, loss = record.array("without"), record.array("held_out")[:, -1]
    rise, rotary = without - without[..., WHOLE : WHOLE + 1], rotary_of("neox-mini-sequential")
    traces = [{name: record.array(name)[k] for name in TRACED} for k in range(len(SEQUENTIAL))]
    of = {source: tuple(curves(trace, source, rotary) for trace in traces) for source in SHOWN}
    size = {source: np.stack([ranges(values) for values in of[source]]) for source in SHOWN}
    plain = {source: values[seeds_of("neox-mini")] for source, values in parallel.size.items()}
    numbers: dict[str, float] = {}
    for name, (counted, way) in ORDERED.items():
        values = rise[:, COUNTED.index(counted), list(WAYS).index(way)]
        numbers |= {f"{name}_low": float(values.min()), f"{name}_high": float(values.max())}
    for name, values in (("bias_range", size["bias"]), ("parallel_range", plain["bias"])):
        largest = values.max((1, 2))
        numbers |= {f"{name}_low": float(largest.min()), f"{name}_high": float(largest.max())}
    return (
        Order(
            rise,
            size,
            of,
            seeds=len(SEQUENTIAL),
            loss_low=float(loss.min()),
            loss_high=float(loss.max()),
            share_first=_share_first(size),
            parallel_share_first=_share_first(plain),
            **count_strong(record),
            **numbers,
        ),
        sentence,
    )


def _share_first(size: Mapping[str, Float[np.ndarray, "run layer head"]]) -> float:
    return float(np.median(size["bias"][:, 0] / size["mean"][:, 0]))
