"""The residual of MiniLM, of its controls and of random stacks under every setting of the switches.

Settings are axes: skip connections (without, with), the MLP (none, linear, GELU), LayerNorm (without, with), and the
gains of the LayerNorms (ones, the model's own); without LayerNorm the last makes no difference. Residuals are
logarithms to base 10, of models the mean over one document of each kind.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from jaxtyping import Float

from analysis.core.weights import EncoderLayer
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import LEVELS, SEEDS, make_controls
from analysis.representations.rank_collapse import random_collapse, trace_residual
from analysis.transformer.encoder import Switches
from book.lab.documents import load_documents
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result, Value

LONGEST = 32  # tokens of a document
GAINS = (0.55, 1.0, 2.0)
MLPS = ("none", "linear", "GELU")
SHAPE = (2, len(MLPS), 2, 2)  # skip, MLP, LayerNorm, its gains
WIDTH, DEPTH = 64, 12  # random stacks
FLOOR = 1e-13  # what falls lower is rounding, which another machine does otherwise


def settings() -> Iterator[tuple[tuple[int, int, int, int], Switches]]:
    """Walk through all places of the arrays, with the switches that stand there."""
    for skip, mlp, norm, gain in product(*map(range, SHAPE)):
        norms = {"norm_attention": bool(norm), "norm_mlp": bool(norm)}
        yield (skip, mlp, norm, gain), Switches(skip=bool(skip), mlp=mlp > 0, linear=mlp == 1, **norms)


def compute(device: torch.device) -> Result:
    """Trace documents through MiniLM and its controls, and random rows through random stacks."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    documents = [document.text for document in load_documents(each=1)]

    def load(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network: torch.nn.Module) -> Float[np.ndarray, "skip mlp norm gain state"]:
        layers = load(network).encoder_layers()
        reads = [extraction.hidden_states(network, tokenizer, [text], LONGEST)[0][0] for text in documents]
        return trace(reads, layers)

    trained = load(None)
    arrays = {
        "trained": measure(trained),
        "controls": measure_controls(make_controls(trained, load), measure),
        "stacks": np.stack([[trace_stack(gain, seed, device) for seed in SEEDS] for gain in GAINS]),
    }
    values = {"mlps": Value(json.dumps(MLPS)), "rungs": Value(json.dumps(LEVELS)), "gains": Value(json.dumps(GAINS))}
    return Result(
        values, {name: array.astype(np.float32) for name, array in arrays.items()}, dict.fromkeys(arrays, 1e-2)
    )


def trace(
    reads: Sequence[Float[torch.Tensor, "position model"]], layers: Sequence[EncoderLayer]
) -> Float[np.ndarray, "skip mlp norm gain state"]:
    """Follow the residual of what each text's first layer reads, under every setting; mean of the logarithms."""
    stacks = [with_plain_gains(layers), layers]
    residuals = np.empty((*SHAPE, len(layers) + 1))
    for place, switches in settings():
        skip, mlp, norm, gain = place
        if gain and not norm:  # the gains are those of no LayerNorm
            residuals[place] = residuals[skip, mlp, norm, 0]
            continue
        traces = torch.stack([trace_residual(x, stacks[gain], switches) for x in reads])
        residuals[place] = traces.clamp_min(FLOOR).log10().mean(0).numpy(force=True)
    return residuals


def with_plain_gains(layers: Sequence[EncoderLayer]) -> list[EncoderLayer]:
    """Return the layers with a gain of one in every LayerNorm; biases stay."""

    def plain(norm):
        return replace(norm, gain=torch.ones_like(norm.gain))

    return [
        replace(layer, norm_attention=plain(layer.norm_attention), norm_mlp=plain(layer.norm_mlp)) for layer in layers
    ]


def trace_stack(gain: float, seed: int, device: torch.device) -> Float[np.ndarray, "skip mlp norm state"]:
    """Follow the residual through one random stack, whose LayerNorms have gains of one."""
    switches = [each for place, each in settings() if place[-1]]
    traces = random_collapse(WIDTH, gain, seed, switches, depth=DEPTH, device=device)
    return traces.clamp_min(FLOOR).log10().numpy(force=True).reshape(*SHAPE[:-1], DEPTH + 1)


EXPERIMENT = Experiment(
    "The residual of MiniLM, its controls and random stacks under every setting of the switches",
    compute,
    models=("minilm",),
    minutes=1.5,
    seed=0,
)
