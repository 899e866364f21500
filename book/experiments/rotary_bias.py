"""Query and key bias in trainings of neox-mini and gpt2-mini, and in controls of neox-mini.

neox-mini has parallel blocks and three variants: all coordinates turned, a quarter of them, and no bias anywhere; in
gpt2-mini, beside it, the key bias cancels. Then with the MLP after attention, and at 6 layers and width 512. Another
machine rounds otherwise and its training drifts away from this one, so tolerances are wide.

A random initialisation has no biases: they begin at 0. So that the other levels between it and the trained model have
some, the second draws each bias vector at random with the norm of the trained one, and the third shuffles the trained
one's entries; the gains of LayerNorms are those of the level. Beside the ladder stands a control of one part: in the
trained model the kernel keeps its amplitudes and gets phases drawn at random.
"""

import copy
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from analysis.core.positions import Rotary
from analysis.models import checkpoints, reading
from analysis.models.controls import LEVELS, SEEDS, Control, make_controls
from book.lab.rotary_ablation import WAYS, Biases, Scores, biases_of, choose_windows, evaluate, lose_parts
from book.lab.rotary_kernels import SLOW, SOURCES, curves, kernel_of, ranges, spread_kernel, with_random_phases
from book.lab.rotary_probe import make_probe
from book.lab.rotary_runs import RUNS, SEQUENTIAL, final_losses, load, measure_gpt2, measure_runs
from book.lab.rotary_shares import SHARE_TOKENS, SHARE_WINDOWS, split_attention
from book.lab.training import gpt2_mini, neox_mini
from book.publish.records import Experiment, Result, Value

MODEL = "neox-mini"
WIDE = 20.0
"""Tolerance of arrays that a training ends with: what has to repeat is the finding."""
KEPT = ("step", "held_out", "without", "previous_bias", "previous_mean")
"""What is kept of the measures at width 512, where queries and keys of every step take megabytes."""


def measure(
    device: torch.device, runs: Sequence[tuple[str, int]], within: float = 0.05, kept: Sequence[str] | None = None
) -> Result:
    """Train what is not yet trained, and measure every model: biases as they grow, and losses without parts.

    Losses are right ``within`` so many nats; of the other measures those are ``kept`` that are named, or all.
    """
    arrays = measure_runs(runs, gpt2_mini.read_corpus(), device)
    arrays = {name: arrays[name] for name in kept or arrays}
    losses = {name: Value(loss, within, unit="nats per token") for name, loss in final_losses(runs, arrays).items()}
    return Result(losses, arrays, dict.fromkeys(arrays.keys() - {"step"}, WIDE))


def measure_beside_gpt2(device: torch.device) -> Result:
    """How query and key bias grow in neox-mini and its variants, and what the models lose without their parts.

    Measure the parallel variants, and gpt2-mini.
    """
    found, gpt2 = measure(device, RUNS), measure_gpt2(gpt2_mini.read_corpus(), device)
    return Result(found.values, found.arrays | gpt2, found.tolerances | dict.fromkeys(gpt2, WIDE))


def _medium(name: str, blocks: str) -> Experiment:
    return Experiment(
        partial(measure, runs=((name, 0),), within=0.2, kept=KEPT),
        f"What biases and mean input do in neox-mini at 6 layers and width 512, {blocks} blocks",
        minutes=4,
        seed=0,
        needs_gpu=True,
    )


def survey_levels(device: torch.device) -> Result:
    """What biases and mean input do in neox-mini and in its controls.

    Measure the bundled model and its controls; arrays of these are ``(level, seed, ...)``.
    """
    trained = load(checkpoints.find(MODEL).folder, device)
    windows = choose_windows(gpt2_mini.read_corpus().windows).to(device)
    arrays = {f"trained_{name}": value for name, value in measure_network(trained, windows).items()}
    rows: dict[str, list[np.ndarray]] = {}
    for control in make_levels(trained):
        for name, value in measure_network(control.network, windows).items():
            rows.setdefault(f"{name} {control.level}", []).append(value)
    for name in (key.removeprefix("trained_") for key in tuple(arrays)):
        arrays[f"control_{name}"] = np.stack([np.stack(rows[f"{name} {level}"]) for level in LEVELS])
    arrays["rise_random_phases"] = np.array([_lose_phases(trained, windows, seed) for seed in SEEDS])
    tolerances = {name: 0.02 for name, value in arrays.items() if value.dtype.kind == "f"}
    return Result({}, arrays, tolerances)


def make_levels(trained: nn.Module) -> Iterator[Control]:
    """Yield the controls of a trained GPT-NeoX, with biases on the levels on which it has some of the trained size."""

    def initialise(seed: int) -> nn.Module:
        drawn = neox_mini.make_model(neox_mini.VARIANTS[MODEL], trained.config.vocab_size, seed)
        drawn.set_attn_implementation("eager")
        return drawn.eval().requires_grad_(False).to(trained.device)

    for control in make_controls(trained, initialise):
        if control.level != "random":
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
        if control.level == "permuted":
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


EXPERIMENTS = {
    "rotary-bias-trainings": Experiment(measure_beside_gpt2, models=("gpt2-mini",), minutes=90.0, seed=0),
    "rotary-bias-sequential": Experiment(
        partial(measure, runs=SEQUENTIAL),
        summary="What biases and mean input do in neox-mini where the MLP follows attention",
        minutes=30.0,
        seed=0,
    ),
    "rotary-bias-medium-parallel": _medium("neox-medium", "parallel"),
    "rotary-bias-medium-sequential": _medium("neox-medium-sequential", "sequential"),
    "rotary-bias-ladder": Experiment(survey_levels, models=(MODEL,), minutes=4.0, seed=0),
}
