"""The residual of rows in stacks of layers with parts switched on and off: random stacks, and a trained model.

A residual is relative, ``|X - 1 mean| / |X|`` in the Frobenius norm. A *run* follows it through one stack, by state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.positions import Alibi, ScoreTable
from analysis.core.weights import EncoderLayer
from analysis.matrices.rank import numerical_rank
from analysis.models.extraction import Observed
from analysis.representations import rank_collapse
from analysis.representations.rank_collapse import residual
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transformer.attention import attend
from analysis.transformer.encoder import (
    ALL_ON,
    PURE_ATTENTION,
    Switches,
    encode,
    encode_layer,
    random_layers,
    run_layer,
)

NO_NORMS = replace(ALL_ON, norm_attention=False, norm_mlp=False)
WITH_SKIP = replace(PURE_ATTENTION, skip=True)
ACTIVATIONS = {"GELU": gelu, "z / 2": lambda z: z / 2, "z": lambda z: z}
WHOLE, NO_MLP = ALL_ON.describe(), Switches(mlp=False).describe()


def all_switches() -> list[Switches]:
    """Return every set of parts beside attention: with an MLP or none first, then with a linear one."""
    on = (False, True)
    return [
        *(set_parts(skip=s, mlp=m, norms=n) for s, m, n in product(on, on, on)),
        *(set_parts(skip=s, norms=n, linear=True) for s, n in product(on, on)),
    ]


def set_parts(*, norms: bool, **parts: bool) -> Switches:
    """Return switches with both LayerNorms on or both off."""
    return Switches(norm_attention=norms, norm_mlp=norms, **parts)


FLOOR = 1e-16  # residuals below are rounding errors
Runs = Mapping[str, Float[np.ndarray, "run state"]]
Run = Callable[[Float[Tensor, "row model"], EncoderLayer], Float[Tensor, "row model"]]


def typical(run: Float[np.ndarray, "run state"], state: int) -> float:
    """Return the geometric mean over the runs, which are stacks or texts, at one state."""
    return float(np.exp(np.log(np.maximum(run[:, state], FLOOR)).mean()))


def expected_factor(gain: float) -> float:
    """Return what a random layer with a skip connection multiplies a small residual by: (1 + g^4)^(-1/2)."""
    return (1 + gain**4) ** -0.5


def in_words(size: float) -> str:
    """Write a residual, or that it is small.

    Examples
    --------
    >>> in_words(0.456), in_words(1e-4), in_words(1e-9)
    ('0.46', '< 0.01', '< 1e-6')
    """
    return f"{size:.2f}" if size >= 0.01 else "< 0.01" if size > 1e-6 else "< 1e-6"


SEEDS, HEADS, ROWS, WIDTHS, GAINS = 5, 4, 32, (16, 32, 64, 128), (0.55, 1.0, 2.0)  # random stacks
DEEP, DEEP_WIDTH = 48, 64  # layers and width of those that test the long run


@dataclass(frozen=True)
class OneLayer:
    """The residual after one random layer, for rows at chosen distances from their mean."""

    sizes: Float[Tensor, " size"]  # before the layer
    after: Mapping[str, Float[Tensor, "seed size"]]  # by what follows attention, and what it may see
    slopes: Mapping[str, Interval]
    slope_by_gain: Mapping[float, float]  # attention alone
    log_factor: Mapping[float, Interval]  # with skip connection, at the smallest size
    to_itself: AttentionLayer  # under which every row attends to itself alone
    kept_residual: float  # after twelve such layers
    kept_rank: int


@dataclass(frozen=True)
class Stacks:
    """Random stacks with parts switched on and off, by gain of the weights."""

    seeds: int
    widths: tuple[int, ...]
    runs: Mapping[float, Runs]  # twelve layers; the runs are ordered by width, then by seed
    depth: int
    deep: Mapping[float, Runs]  # of that depth, one width, with skip connections
    rate: Mapping[float, Interval]  # log of the factor a layer in the long run, with skip connections alone

    @property
    def names(self) -> list[str]:
        """The sets of parts in words."""
        return list(self.runs[1.0])

    @property
    def worst_without_skip(self) -> float:
        """The largest residual after six layers without skip connections, at gains up to 1."""
        return max(run[:, 6].max() for gain in GAINS[:2] for name, run in self.runs[gain].items() if "skip" not in name)

    @property
    def least_with_skip(self) -> float:
        """The smallest residual after six layers of attention and skip connections, at gains up to 1."""
        return min(self.runs[gain]["attention + skip"][:, 6].min() for gain in GAINS[:2])

    @property
    def linear_gain(self) -> Interval:
        """How much more a linear MLP leaves than one with GELU after twelve layers of gain 1."""
        runs = self.runs[1.0]
        return mean_interval(runs["attention + skip + linear MLP"][:, 12] - runs["attention + skip + MLP"][:, 12])

    @property
    def most_left(self) -> float:
        """The largest residual of the deep stacks of gain 1."""
        return max(run[:, self.depth].max() for run in self.deep[1.0].values())


@dataclass(frozen=True)
class Activations:
    """Random stacks of gain 1 with GELU, z/2 or z in the MLP."""

    cases: list[str]
    runs: Mapping[str, Float[np.ndarray, "case seed state"]]
    hastened: Mapping[str, float]  # residual after three layers without skip, relative to attention alone


def measure_one_layer(device: torch.device) -> OneLayer:
    """Fit how the residual after one random layer depends on the residual before it."""
    sizes = torch.logspace(-1, -4, 7, dtype=torch.float64)

    def residuals(run: Run, gain: float = 1.0) -> Float[Tensor, "seed size"]:
        return torch.stack([residuals_after_a_layer(sizes, seed, run, gain, device) for seed in range(SEEDS)])

    def slope(runs: Float[Tensor, "seed size"]) -> Interval:
        return mean_interval([rank_collapse.cubic_rate(sizes, run) for run in runs])

    place = torch.arange(ROWS, dtype=torch.float64, device=device)
    apart = (place[:, None] - place).expand(HEADS, -1, -1)
    with_skip = {gain: residuals(run_with(WITH_SKIP), gain) for gain in GAINS}
    after = {
        "attention": residuals(run_with(PURE_ATTENTION)),
        "then MLP": residuals(run_with(replace(NO_NORMS, skip=False))),
        "then LayerNorm": residuals(run_with(replace(PURE_ATTENTION, norm_attention=True))),
        "causal mask": residuals(attend_with(mask=Mask(causal=True))),
        "scores by distance": residuals(attend_with(positions=ScoreTable(-apart.abs()))),
        "scores by place": residuals(attend_with(positions=Alibi(heads=HEADS))),  # no mask: a line in i - j
        "with skip": with_skip[1.0],
    }
    eye, nothing = torch.eye(4, dtype=torch.float64), torch.zeros(1, 4, dtype=torch.float64)
    to_itself = AttentionLayer(2000 * eye[None], *3 * [eye[None]], *3 * [nothing], nothing[0])
    x = eye
    for _ in range(12):
        x = attend(x, to_itself).output
    return OneLayer(
        sizes=sizes,
        after=after,
        slopes={name: slope(runs) for name, runs in after.items()},
        slope_by_gain={gain: slope(residuals(run_with(PURE_ATTENTION), gain)).value for gain in GAINS},
        log_factor={gain: mean_interval((runs / sizes)[:, -1].log().numpy()) for gain, runs in with_skip.items()},
        to_itself=to_itself,
        kept_residual=residual(x).item(),
        kept_rank=numerical_rank(x).rank,
    )


def run_with(switches: Switches) -> Run:
    """Return the layer as a function of its rows, with the parts that are switched on."""
    return lambda x, layer: encode_layer(x, layer, switches)


def attend_with(**change: Mask | Alibi | ScoreTable) -> Run:
    """Return the layer's attention alone, with another ``mask`` or other ``positions``."""
    return lambda x, layer: attend(x, replace(layer.attention, **change)).output


def residuals_after_a_layer(
    sizes: Float[Tensor, " size"], seed: int, run: Run, gain: float, device: torch.device
) -> Float[Tensor, " size"]:
    """Place rows at each distance from their mean, run one random layer and return their residuals."""
    g = torch.Generator().manual_seed(seed)
    (layer,) = random_layers(1, HEADS, 64, gain=gain, generator=g)
    common_row, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((64,), (ROWS, 64)))
    rows = [rank_collapse.scatter_around_mean(common_row, noise, float(size)).to(device) for size in sizes]
    return torch.stack([residual(run(x, layer.to(device))) for x in rows]).cpu()


def measure_stacks(device: torch.device) -> Stacks:
    """Follow the residual through random stacks: twelve layers under all switches, and deep ones with skips."""
    skips = [WITH_SKIP, NO_NORMS, replace(NO_NORMS, linear=True), ALL_ON]

    def follow(gain: float, widths: Sequence[int], switches: Sequence[Switches], depth: int) -> Runs:
        runs = torch.stack(
            [
                rank_collapse.random_collapse(width, gain, seed, switches, depth=depth, device=device)
                for width in widths
                for seed in range(SEEDS)
            ],
            dim=1,
        )
        return {s.describe(): run.cpu().numpy() for s, run in zip(switches, runs, strict=True)}

    deep = {gain: follow(gain, [DEEP_WIDTH], skips, DEEP) for gain in GAINS}
    late = {gain: np.log(runs["attention + skip"][:, [24, 36]]) for gain, runs in deep.items() if gain <= 1}
    return Stacks(
        seeds=SEEDS,
        widths=WIDTHS,
        depth=DEEP,
        deep=deep,
        runs={gain: follow(gain, WIDTHS, all_switches(), 12) for gain in GAINS},
        rate={gain: mean_interval((logs[:, 1] - logs[:, 0]) / 12) for gain, logs in late.items()},
    )


def measure_activations(device: torch.device) -> Activations:
    """Compare GELU with z/2 and z in random stacks, and all of them with attention alone."""
    cases = {"no skip, 3 layers": replace(NO_NORMS, skip=False), "skip, 6 layers": NO_NORMS, "all, 6 layers": ALL_ON}

    def follow(switches: Sequence[Switches], depth: int, activation: Callable[[Tensor], Tensor] = gelu) -> np.ndarray:
        return (
            torch.stack(
                [
                    rank_collapse.random_collapse(
                        64, 1.0, seed, switches, depth=depth, activation=activation, device=device
                    )
                    for seed in range(SEEDS)
                ],
                dim=1,
            )
            .cpu()
            .numpy()
        )

    runs = {name: follow(list(cases.values()), 6, activation) for name, activation in ACTIVATIONS.items()}
    alone = typical(follow([PURE_ATTENTION], 3)[0], 3)
    return Activations(list(cases), runs, {name: typical(of_cases[0], 3) / alone for name, of_cases in runs.items()})


@dataclass(frozen=True)
class TrainedStack:
    """The switches in a trained model and in its control."""

    traced: Mapping[str, Runs]  # one run for each text
    cosines: Mapping[str, Mapping[str, float]]  # of a text's mean row at the end with that of the whole model
    hidden: Mapping[str, Float[np.ndarray, "layer 4"]]  # mean of GELU, share below zero, residual before and after it
    ends: Mapping[str, Mapping[str, tuple[float, float]]]  # residual after the last layer and cosine, by activation

    @property
    def final(self) -> dict[str, dict[str, float]]:
        """The residual after the last layer."""
        return {which: {name: typical(run, -1) for name, run in runs.items()} for which, runs in self.traced.items()}

    @property
    def most_without_skip(self) -> float:
        """The largest residual that a trained stack without skip connections ends at."""
        return max(value for name, value in self.final["trained"].items() if "skip" not in name)


def measure_trained_stack(observed: Mapping[str, Observed]) -> TrainedStack:
    """Switch parts of the model and its control off, and look at what GELU reads and writes."""

    found = {
        which: {switches.describe(): trace_texts(o, switches) for switches in all_switches()}
        for which, o in observed.items()
    }
    return TrainedStack(
        traced={which: {name: run for name, (run, _) in parts.items()} for which, parts in found.items()},
        cosines={which: {name: cosine for name, (_, cosine) in parts.items()} for which, parts in found.items()},
        hidden={which: measure_hidden_rows(o) for which, o in observed.items()},
        ends={
            which: {
                name: (typical(run, -1), cosine)
                for name, activation in ACTIVATIONS.items()
                for run, cosine in [trace_texts(o, ALL_ON, activation)]
            }
            for which, o in observed.items()
        },
    )


def trace_texts(
    o: Observed, switches: Switches, activation: Callable[[Tensor], Tensor] = gelu
) -> tuple[Float[np.ndarray, "text state"], float]:
    """Follow the residual of every text; and return how near their mean rows end to those of the whole model."""
    runs = [encode(states[0], o.layers, switches, activation) for states in o.states]
    cosines = [
        torch.cosine_similarity(run[-1].mean(0), states[-1].mean(0), dim=0)
        for run, states in zip(runs, o.states, strict=True)
    ]
    return torch.stack([residual(torch.stack(run)) for run in runs]).cpu().numpy(), torch.stack(cosines).mean().item()


def measure_hidden_rows(o: Observed) -> Float[np.ndarray, "layer 4"]:
    """Return by layer the mean of GELU, the share of what it reads below zero, and the residual before and after it."""
    by_layer = []
    for i, layer in enumerate(o.layers):
        after_attention = torch.cat([run_layer(s[i], layer).first for s in o.states])
        z = after_attention @ layer.mlp.W_in + layer.mlp.b_in
        by_layer.append(torch.stack([gelu(z).mean(), (z < 0).double().mean(), residual(z), residual(gelu(z))]))
    return torch.stack(by_layer).cpu().numpy()
