"""The rungs between a random model and the trained one, and what each brings about.

A random initialisation has no biases: they begin at 0. So that the other rungs have some, the second draws each bias
vector at random with the norm of the trained one, and the third shuffles the trained one's entries; the gains of
LayerNorms are those of the rung. Beside the ladder stands a control of one part: in the trained model the kernel keeps
its amplitudes and gets phases drawn at random.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_kernel import Kernel
from analysis.models import checkpoints, reading
from analysis.models.controls import RUNGS, SEEDS, Control, make_controls
from analysis.plotting.ladder import Ladder
from book.lab.rotary_probe import make_probe
from book.lab.training import gpt2_mini, neox_mini
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Experiment, Result
from book.studies.rotary_bias.kernels import NEAR, SLOW, SOURCES, curves, kernel_of, ranges
from book.studies.rotary_bias.parts import COUNTED, PARTS, WAYS, Scores, biases_of, evaluate, split_attention
from book.studies.rotary_bias.runs import (
    HEAD_WINDOWS,
    SHARE_TOKENS,
    SHARE_WINDOWS,
    Biases,
    choose_windows,
    load,
    lose_parts,
)
from book.studies.rotary_bias.seeds import mean_shares

# ---- What the chapter says of a trained neox-mini, measured on the ladder of its controls

NAME = "neox-mini"


def compute(device: torch.device) -> Result:
    """Measure the bundled model and its controls; arrays of these are ``(rung, seed, ...)``."""
    trained = load(checkpoints.find(NAME).folder, device)
    windows = choose_windows(gpt2_mini.read_corpus().windows).to(device)
    arrays = {f"trained_{name}": value for name, value in measure_network(trained, windows).items()}
    rows: dict[str, list[np.ndarray]] = {}
    for control in make_rungs(trained):
        for name, value in measure_network(control.network, windows).items():
            rows.setdefault(f"{name} {control.rung}", []).append(value)
    for name in (key.removeprefix("trained_") for key in tuple(arrays)):
        arrays[f"control_{name}"] = np.stack([np.stack(rows[f"{name} {rung}"]) for rung in RUNGS])
    arrays["rise_random_phases"] = np.array([_lose_phases(trained, windows, seed) for seed in SEEDS])
    tolerances = {name: 0.02 for name, value in arrays.items() if value.dtype.kind == "f"}
    return Result({}, arrays, tolerances)


def make_rungs(trained: nn.Module) -> Iterator[Control]:
    """Yield the controls of a trained GPT-NeoX, with biases on the rungs on which it has some of the trained size."""

    def initialise(seed: int) -> nn.Module:
        drawn = neox_mini.make_model(neox_mini.VARIANTS[NAME], trained.config.vocab_size, seed)
        drawn.set_attn_implementation("eager")
        return drawn.eval().requires_grad_(False).to(trained.device)

    for control in make_controls(trained, initialise):
        if control.rung != "random":
            yield control._replace(network=change_biases(control, trained))
        else:
            yield control


@torch.no_grad()
def change_biases(control: Control, trained: nn.Module) -> nn.Module:
    """Return a copy of the control whose bias vectors are as long as the trained ones, in no order.

    Biases of queries, keys and values are treated each for itself.
    """
    network, generator = copy.deepcopy(control.network), torch.Generator().manual_seed(control.seed)
    for own, bias in zip(_bias_vectors(network), _bias_vectors(trained), strict=True):
        if control.rung == "permuted":
            values = bias.flatten()[torch.randperm(bias.numel(), generator=generator).to(bias.device)]
        else:
            values = torch.randn(bias.numel(), generator=generator).to(bias)
            values *= bias.norm() / values.norm()
        own.copy_(values.view_as(own))
    return network


def _bias_vectors(network: nn.Module) -> list[Tensor]:
    """Return views of all biases, that of queries, keys and values in three."""
    vectors = []
    for name, bias in network.named_parameters():
        if name.endswith("query_key_value.bias"):
            vectors += bias.view(gpt2_mini.HEADS, 3, -1).unbind(1)
        elif name.endswith("bias"):
            vectors.append(bias)
    return vectors


def measure_network(network: nn.Module, windows: Tensor) -> dict[str, np.ndarray]:
    """Measure one network on held-out windows.

    Returns
    -------
    dict
        ``range (source, layer, head)`` of the kernels in nats, and ``peak``, where they are largest; ``slope (layer,
        head)`` of the slow frequencies of the mean input's, at distance 0; ``loss`` in nats per token, and ``rise
        (counted, way)`` when parts are left out; ``shares (counted, layer, head, part)``; ``previous (counted, way,
        layer, head)``, the attention to the previous position.
    """
    rotary = reading.load(network).layers[0].positions
    trace = {name: np.asarray(value)[None] for name, value in make_probe(windows)(0, network).items()}
    over_distance = [curves(trace, source, rotary) for source in SOURCES]
    layers, both = range(len(over_distance[0])), biases_of(trace)
    slopes = [kernel_of(trace, "mean", layer, rotary).slope(slower_than=SLOW).numpy() for layer in layers]
    without = np.array([lose_parts(network, windows, biases, rotary) for biases in both.values()])
    split = split_attention(network, windows[:SHARE_WINDOWS, :SHARE_TOKENS], both, rotary)
    return {
        "range": np.stack([ranges(values) for values in over_distance]),
        "slope": np.stack(slopes),
        "peak": np.stack([values.argmax(-1) for values in over_distance]),
        "loss": without[0, 0],
        "rise": without - without[:, :1],
        "shares": split.means(),
        "previous": np.stack([_previous(network, windows, biases, rotary) for biases in both.values()]),
    }


def _previous(network: nn.Module, windows: Tensor, biases: Biases, rotary: Rotary) -> np.ndarray:
    watched = Scores(biases, rotary, watch=tuple(WAYS))
    evaluate(network, windows, watched)
    return watched.previous_attention().numpy()


def _lose_phases(trained: nn.Module, windows: Tensor, seed: int) -> list[float]:
    """Return by how much the loss rises when the kernel's phases are drawn at random: of the biases, of the mean."""
    rotary = reading.load(trained).layers[0].positions
    trace = {name: np.asarray(value)[None] for name, value in make_probe(windows)(0, trained).items()}
    whole, rises = evaluate(trained, windows)[0], []
    for kind, biases in biases_of(trace).items():
        generator, maps = torch.Generator().manual_seed(seed), []
        for layer in range(len(biases)):
            kernel = kernel_of(trace, kind, layer, rotary)
            maps.append(spread_kernel(with_random_phases(kernel, generator), windows.shape[1] - 1))
        scores = Scores(biases, rotary, ("kernel",), instead=maps)
        rises.append(evaluate(trained, windows, scores)[0] - whole)
    return rises


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


EXPERIMENT = Experiment(
    "What biases and mean input do in neox-mini and in its controls", compute, models=(NAME,), minutes=4.0, seed=0
)


# ---- The ladder of controls on the page: which statements about the trained neox-mini its controls share

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
