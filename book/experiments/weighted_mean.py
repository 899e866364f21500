"""How far from uniform attention three models, their controls and several trainings are, and GPT-2's heads on the dial.

Random networks as large as the trained one come in four kinds: each matrix has the norm of the trained one, or each
head's part of it has, and the LayerNorms are those of a fresh network or the trained ones.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.controls import SEEDS, make_controls, random_attention_layer, scale_matrices
from analysis.models.reading import Model, load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.lab import gpt2_mini_runs
from book.lab.equality import entropy_shares
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result, Value

POSITIONS, DRAWS = 128, 8
MODELS, PASSAGES = ("gpt2-mini", "minilm"), 4
DIALS = torch.cat([torch.zeros(1), torch.logspace(-2, 2, 33)]).double()


def curves(x, layer, dials: Tensor = DIALS) -> tuple[Tensor, Tensor]:
    """Return means over sequences and rows 2, 3, ...: ``(dial, head)`` entropy over ``log i``, and weight on itself."""
    scores = mask_future(compute_scores(x, layer))
    share = entropy.entropy_at(scores, dials.to(x)) / entropy.count_visible_keys(scores).log()
    return share[..., 1:].mean((1, -1)), scores.softmax(-1).diagonal(dim1=-2, dim2=-1)[..., 1:].mean((0, -1))


def turn_dials(device: torch.device) -> Result:
    """GPT-2's first-layer heads between uniform and sharp attention.

    Turn the dial for GPT-2's heads, on positions alone and with random vectors in place of tokens.
    """
    return turn(load(checkpoints.find("gpt2"), dtype=torch.float64), device)


def turn(model: Model, device: torch.device) -> Result:
    """Turn the dial for a model's first layer and for the control."""
    positions, g = model.positions[:POSITIONS].to(device), torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, *positions.shape, generator=g, dtype=torch.float64).to(device)
    norm = model.norm("attention").to(device)
    layer = model.layers[0].plain().to(device)
    random = random_attention_layer(model, 0, dtype=torch.float64).to(device)
    plain = Norm(torch.ones_like(norm.gain), torch.zeros_like(norm.bias), norm.eps)
    inputs = {
        "positions": (apply_norm(positions, norm)[None], layer),
        "stand_ins": (apply_norm(positions + positions.std() * noise, norm), layer),
        "control": (apply_norm(model.config.initializer_range * noise, plain), random),
    }
    arrays = {}
    for name, (x, w) in inputs.items():
        arrays[name], arrays[f"{name}_self"] = (a.cpu().numpy() for a in curves(x, w))
    return Result(
        {"positions": Value(len(positions)), "draws": Value(DRAWS), "spread": Value(float(positions.std()), 1e-6)},
        {"dials": DIALS.numpy(), **arrays},
        {"dials": 1e-6, **dict.fromkeys(arrays, 1e-6)},
    )


SIZES = ("heads", "matrices, trained norms", "heads, trained norms")
"""Further kinds of random networks as large; the ladder has the one with each matrix scaled and fresh LayerNorms."""
# the axis of the heads in the matrices of attention of a BERT and of a GPT-2
AXES = dict.fromkeys(("query.weight", "key.weight", "value.weight", "attn.c_proj.weight"), 0)
AXES |= dict.fromkeys(("attention.output.dense.weight", "attn.c_attn.weight"), 1)


@dataclass(frozen=True)
class FirstLayer:
    """A layer of attention with the LayerNorm that it reads through."""

    norm: Norm
    attention: AttentionLayer


def survey_controls(device: torch.device) -> Result:
    """How far from uniform attention the controls of three models are.

    Return ``(layer, head)`` shares of the full entropy, trained, and ``(level, seed, layer, head)`` of controls.

    ``NAME-controls`` has the ladder's levels, ``NAME-sizes`` those of :data:`SIZES`.
    """
    found = {name: of_model(checkpoints.find(name), device) for name in MODELS}
    found["gpt2"] = of_first_layer(load(checkpoints.find("gpt2"), dtype=torch.float64), device)
    arrays = {name + kind: one for name, three in found.items() for kind, one in three.items()}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def of_model(checkpoint: Checkpoint, device: torch.device) -> dict[str, np.ndarray]:
    """Run a whole model and its controls on text."""
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def share(network):
        return entropy_shares(checkpoint, passages=PASSAGES, network=network, device=device)[0].cpu().numpy()

    return _measure(trained, draw, share)


def of_first_layer(model: Model, device: torch.device) -> dict[str, np.ndarray]:
    """Give a first layer, and its controls, positions alone (first row) and with stand-ins (second row)."""
    positions = model.positions[:POSITIONS].to(device)
    noise = torch.randn(DRAWS, *positions.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inputs = positions[None], positions + positions.std() * noise.to(device)
    norm = model.norm("attention").to(device)
    fresh = Norm(torch.ones_like(norm.gain), torch.zeros_like(norm.bias), norm.eps)

    def draw(seed):
        return FirstLayer(fresh, random_attention_layer(model, 0, seed, torch.float64).to(device))

    def share(first):
        shares = [curves(apply_norm(x, first.norm), first.attention, torch.ones(1))[0] for x in inputs]
        return torch.cat(shares).numpy(force=True)

    return _measure(FirstLayer(norm, model.layers[0].plain().to(device)), draw, share)


def _measure(trained: Any, draw: Callable[[int], Any], share: Callable[[Any], np.ndarray]) -> dict[str, np.ndarray]:
    sizes = [[share(network) for network in as_large(draw(seed), trained)] for seed in SEEDS]
    return {
        "": share(trained),
        "-controls": measure_controls(make_controls(trained, draw), share),
        "-sizes": np.stack(sizes, 1),
    }


@torch.no_grad()
def as_large(random: Any, trained: Any) -> list[Any]:
    """Return a random network as large as the trained one in each of the ways of :data:`SIZES`."""
    matrices = scale_matrices(random, trained)
    by_head = copy.deepcopy(matrices)
    for mine, own in zip(_heads(by_head), _heads(trained), strict=True):
        mine.mul_(own.norm(dim=(1, 2), keepdim=True) / mine.norm(dim=(1, 2), keepdim=True))
    return [by_head, *(_with_norms(network, trained) for network in (matrices, by_head))]


def _heads(network: Any) -> list[Tensor]:
    """Return views of the four matrices of attention, of each layer, with the head in front."""
    if isinstance(network, FirstLayer):
        return [getattr(network.attention, f"W_{which}") for which in "QKVO"]
    count = network.config.num_attention_heads
    return [
        weight.unflatten(axis, (3 * count if "c_attn" in ending else count, -1)).movedim(axis, 0)
        for name, weight in network.named_parameters()
        for ending, axis in AXES.items()
        if name.endswith(ending)
    ]


def _with_norms(network: Any, trained: Any) -> Any:
    """Return a copy with the trained LayerNorms."""
    if isinstance(network, FirstLayer):
        return FirstLayer(trained.norm, network.attention)
    network = copy.deepcopy(network)
    for (name, own), mine in zip(trained.named_parameters(), network.parameters(), strict=True):
        if "LayerNorm" in name or "ln_" in name:
            mine.copy_(own)
    return network


def survey_seeds(device: torch.device) -> Result:
    """How far from uniform attention several seeds of gpt2-mini are."""
    return share_of_runs([gpt2_mini_runs.find_run(seed, device) for seed in gpt2_mini_runs.SEEDS], device)


def share_of_runs(folders: list[Path], device: torch.device) -> Result:
    """Return the shares of the full entropy, ``(seed, layer, head)``."""
    seeds = [entropy_shares(checkpoints.find(str(each)), passages=PASSAGES, device=device)[0] for each in folders]
    return Result({}, {"shares": torch.stack(seeds).numpy(force=True)}, {"shares": 0.2})


EXPERIMENTS = {
    "weighted-mean-gpt2": Experiment(turn_dials, models=("gpt2",), minutes=0.3, seed=0),
    "weighted-mean-ladder": Experiment(survey_controls, models=("gpt2", *MODELS), minutes=2.5, seed=0),
    "weighted-mean-seeds": Experiment(survey_seeds, models=("gpt2-mini",), minutes=25.0, seed=gpt2_mini_runs.SEEDS[-1]),
}
