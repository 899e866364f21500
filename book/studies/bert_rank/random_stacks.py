"""The residual of random rows after one random layer, through stacks of them, and with other activations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.attention_layer import AttentionLayer
from analysis.matrices.rank import numerical_rank
from analysis.representations import rank_collapse
from analysis.representations.rank_collapse import residual
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transformer.attention import attend
from analysis.transformer.encoder import ALL_ON, PURE_ATTENTION, Switches, random_layers
from book.studies.bert_rank.parts import ACTIVATIONS, NO_NORMS, WITH_SKIP, all_switches
from book.studies.bert_rank.residuals import Runs, typical

SEEDS, WIDTHS, GAINS = 5, (16, 32, 64, 128), (0.55, 1.0, 2.0)  # random stacks
DEEP, DEEP_WIDTH = 48, 64  # layers and width of those that test the long run


@dataclass(frozen=True)
class OneLayer:
    """The residual after one random layer, for rows at chosen distances from their mean."""

    sizes: Float[Tensor, " size"]  # before the layer
    after: Mapping[str, Float[Tensor, "seed size"]]  # by what follows attention
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

    def residuals(switches: Switches, gain: float = 1.0) -> Float[Tensor, "seed size"]:
        return torch.stack([residuals_after_a_layer(sizes, seed, switches, gain, device) for seed in range(SEEDS)])

    def slope(runs: Float[Tensor, "seed size"]) -> Interval:
        return mean_interval([rank_collapse.cubic_rate(sizes, run) for run in runs])

    after = {
        "attention": residuals(PURE_ATTENTION),
        "then MLP": residuals(replace(NO_NORMS, skip=False)),
        "then LayerNorm": residuals(replace(PURE_ATTENTION, norm_attention=True)),
        "with skip": residuals(WITH_SKIP),
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
        slope_by_gain={gain: slope(residuals(PURE_ATTENTION, gain)).value for gain in GAINS},
        log_factor={gain: mean_interval((residuals(WITH_SKIP, gain) / sizes)[:, -1].log().numpy()) for gain in GAINS},
        to_itself=to_itself,
        kept_residual=residual(x).item(),
        kept_rank=numerical_rank(x).rank,
    )


def residuals_after_a_layer(
    sizes: Float[Tensor, " size"], seed: int, switches: Switches, gain: float, device: torch.device
) -> Float[Tensor, " size"]:
    """Place 32 rows at each distance from their mean, run one random layer and return their residuals."""
    g = torch.Generator().manual_seed(seed)
    (layer,) = random_layers(1, 4, 64, gain=gain, generator=g)
    common_row, noise = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((64,), (32, 64)))
    rows = [rank_collapse.scatter_around_mean(common_row, noise, float(size)).to(device) for size in sizes]
    return torch.stack([rank_collapse.trace_residual(x, [layer.to(device)], switches)[1] for x in rows]).cpu()


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
