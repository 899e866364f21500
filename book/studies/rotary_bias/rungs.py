"""The ladder of controls on the page: which statements about the trained neox-mini its controls share."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder
from book.publish import Inputs, Numbers, live_or_record
from book.studies.rotary_bias.kernels import NEAR, SOURCES
from book.studies.rotary_bias.parts import COUNTED, PARTS, WAYS
from book.studies.rotary_bias.runs import HEAD_WINDOWS
from book.studies.rotary_bias.seeds import mean_shares

LARGE, PERMUTED = RUNGS.index("random, as large"), RUNGS.index("permuted")
LEFT_OUT = ("no semi-bias", "no query side", "no kernel")
NEAREST = 2


@dataclass(frozen=True)
class Rungs(Numbers):
    """Ladders by name, a row each for `sizes_names` or `parts_names`; numbers of trained model and controls.

    Controls are ``(rung, seed, ...)``; ``_large`` and ``_permuted`` name the last two rungs, and ``_low`` and ``_high``
    the ends over their seeds.
    """

    prefix = "rb-ladder"

    sizes: Mapping[str, Ladder]
    sizes_names: tuple[str, ...]
    parts: Mapping[str, Ladder]
    parts_names: tuple[str, ...]
    rise_mean_kernel: float  # of the trained model's loss without the kernel of the mean input
    rise_control_high: float  # the largest of any control, of any part
    fall_control_high: float  # and by how much one falls at most
    own_semi: float  # shares of the biases' own semi-bias and query side, of all heads together
    own_semi_low: float  # of the controls that have biases
    own_semi_high: float
    own_side: float
    own_side_low: float
    own_side_high: float
    own_kernel: float  # that of the kernel of the mean input, and the largest of any control
    own_kernel_high: float
    range_most: float  # the largest kernel of the mean input of any head of any control, in nats
    phases_mean_low: float  # of the trained model's, with that kernel's phases drawn at random
    phases_mean_high: float
    phases_bias_low: float
    phases_bias_high: float
    near: int  # heads whose kernel of the mean input is largest at distance 0 to NEAR, of both layers
    near_large_high: int
    near_permuted_high: int
    nearest: int  # heads whose kernel of the biases is largest at distance 0 to NEAREST
    nearest_large_high: int
    range_mean: float  # the median head's in layer 1, in nats
    range_mean_large_high: float
    range_mean_permuted_low: float
    range_mean_permuted_high: float
    range_bias: float  # of the biases, in layer 0
    range_bias_large_low: float
    range_bias_large_high: float
    slope_down: int  # heads whose slow frequencies slope down
    slope_down_random_high: int  # of all controls
    kernel_share: float  # of the kernel of the mean input in layer 1
    kernel_share_large_high: float
    kernel_share_permuted_low: float
    kernel_share_permuted_high: float
    loss_large_low: float  # of the controls' losses
    previous_large_high: float
    nearest_limit: int = NEAREST
    windows: int = HEAD_WINDOWS  # of held-out text, of which the mean input is taken


def measure_rungs(inputs: Inputs) -> tuple[Rungs, str]:
    """Read the record of the ladder."""
    record, sentence = live_or_record("rotary-bias-ladder", inputs)
    trained, control = (
        {name.removeprefix(kind): value for name, value in record.arrays.items() if name.startswith(kind)}
        for kind in ("trained_", "control_")
    )
    phases, rise, controls = record.array("rise_random_phases"), trained["rise"], control["rise"]
    bias, mean, kernel = 0, len(SOURCES) - 1, list(WAYS).index("no kernel")
    numbers: dict[str, float | int] = {}

    def spread(name: str, values: Float[np.ndarray, "rung seed"], rungs=((LARGE, "large"), (PERMUTED, "permuted"))):
        for rung, word in rungs:
            numbers[f"{name}_{word}_low"], numbers[f"{name}_{word}_high"] = values[rung].min(), values[rung].max()

    def median(values: np.ndarray, source: int, layer: int) -> np.ndarray:
        return np.median(values[..., source, layer, :], -1)

    def count(values: np.ndarray) -> np.ndarray:
        return values.sum((-2, -1))

    for name, source, layer in (("range_mean", mean, 1), ("range_mean_first", mean, 0), ("range_bias", bias, 0)):
        numbers[name] = float(median(trained["range"], source, layer))
        spread(name, median(control["range"], source, layer))
    numbers["near"] = int(count(_peaks(trained, NEAR)[mean]))
    spread("near", count(_peaks(control, NEAR)[..., mean, :, :]))
    nearest = _peaks(trained, NEAREST)[bias]
    spread("nearest", count(_peaks(control, NEAREST)[..., bias, :, :]))
    numbers["slope_down"] = int(count(trained["slope"] < 0))
    numbers["slope_down_random_high"] = int(count(control["slope"] < 0).max())
    shares, of_controls = (
        mean_shares(values)[..., COUNTED.index("mean"), 1, PARTS.index("kernel")]
        for values in (trained["shares"], control["shares"])
    )
    numbers["kernel_share"] = float(shares)
    spread("kernel_share", of_controls)
    spread("loss", control["loss"])
    spread("previous", control["previous"][..., 0, 0, :, :].max((-2, -1)))
    fields = Rungs.__dataclass_fields__
    kept = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in numbers.items()
        if name in fields
    }
    return Rungs(
        *_ladders(trained, control),
        **_whole_numbers(trained, control),
        fall_control_high=float(-controls.min()),
        range_most=float(control["range"][..., mean, :, :].max()),
        rise_mean_kernel=float(rise[1, kernel]),
        rise_control_high=float(controls.max()),
        phases_mean_low=float(phases[:, 1].min()),
        phases_mean_high=float(phases[:, 1].max()),
        phases_bias_low=float(phases[:, 0].min()),
        phases_bias_high=float(phases[:, 0].max()),
        nearest=int(nearest.sum()),
        **kept,
    ), sentence


def _peaks(of: Mapping[str, np.ndarray], nearest: int) -> np.ndarray:
    """Say which kernels are largest at a near distance; one that is 0 everywhere is not."""
    return (of["peak"] <= nearest) & (of["range"] > 0)


def whole_shares(
    shares: Float[np.ndarray, "*model counted layer head part"],
) -> Float[np.ndarray, "*model counted part"]:
    """Return what each of the four parts explains of the divergence of all heads of a model together.

    >>> whole_shares(np.ones((2, 2, 8, 5))).round(2).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    share = shares[..., : len(PARTS)].sum((-3, -2))
    return share / share.sum(-1, keepdims=True)


def _whole_numbers(trained: Mapping[str, np.ndarray], control: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the shares that the page compares: of the biases' own parts, and of the kernel of the mean input."""
    own, others = whole_shares(trained["shares"]), whole_shares(control["shares"])
    numbers = {}
    for name, part in (("semi", "semi_bias"), ("side", "query_side")):
        at = COUNTED.index("bias"), PARTS.index(part)
        biased = others[[LARGE, PERMUTED], :, *at]
        numbers |= {
            f"own_{name}": float(own[at]),
            f"own_{name}_low": float(biased.min()),
            f"own_{name}_high": float(biased.max()),
        }
    at = COUNTED.index("mean"), PARTS.index("kernel")
    return numbers | {"own_kernel": float(own[at]), "own_kernel_high": float(others[..., *at].max())}


def _ladders(trained: Mapping[str, np.ndarray], control: Mapping[str, np.ndarray]) -> tuple:
    """Return the two figures' ladders with the names of their rows."""
    sources = ((0, "biases"), (len(SOURCES) - 1, "mean input"))
    names = tuple(f"{name}, layer {layer}" for _, name in sources for layer in range(2))

    def rows(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[..., source, :] for source, _ in sources], -1)

    def ladder(own: np.ndarray, others: np.ndarray) -> Ladder:
        return Ladder(own, dict(zip(RUNGS, others, strict=True)))

    sizes = {
        "size": ladder(rows(np.median(trained["range"], -1)), rows(np.median(control["range"], -1))),
        "near keys": ladder(rows(_peaks(trained, NEAR).sum(-1)), rows(_peaks(control, NEAR).sum(-1))),
    }
    ways = [list(WAYS).index(way) for way in LEFT_OUT]
    parts = tuple(
        f"{part.replace('_', '-' if part == 'semi_bias' else ' ')}, {name}" for _, name in sources for part in PARTS[1:]
    )

    def whole(values: np.ndarray) -> np.ndarray:
        share = whole_shares(values)
        return share[..., 1:].reshape(*share.shape[:-2], -1)

    def left_out(values: np.ndarray) -> np.ndarray:
        return values[..., ways].reshape(*values.shape[:-2], -1)

    effects = {
        "worth to the loss": ladder(left_out(trained["rise"]), left_out(control["rise"])),
        "share of the attention": ladder(whole(trained["shares"]), whole(control["shares"])),
    }
    return sizes, names, effects, parts
