"""The residual of MiniLM and of its controls, one part at a time taken out, and under all settings of the switches.

Parts are taken out on documents of four kinds. Beside each residual stands the cosine of the sentence with that of the
whole network: where it is near 0, what ran is another network. Lines and linear maps in place of the MLP are fitted on
other documents than they are tried on.

Settings are axes: skip connections, the MLP, LayerNorm, each without and with. Residuals are logarithms to base 10, of
the switched models the mean over one document of each kind.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import LEVELS, make_controls
from analysis.models.reading import load
from analysis.representations.rank_collapse import residual, trace_residual
from analysis.transformer.encoder import Switches, run_layer
from analysis.transformer.mlp import apply_mlp
from book.lab.document_ladder import survey_documents
from book.lab.documents import load_documents
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result, Value

LONGEST, LONGEST_FIT = 32, 128  # tokens of a document that is run, and of those that are fitted to
RIDGE = 1e-3  # of the mean variance of what the MLP reads: keeps the linear map finite on few rows
HIDDEN = ("mean of GELU", "share below zero", "residual before", "residual after")
FACTORS = ("theorem", "seen")
FITS = ("line", "map", "slope")
FLOOR = 1e-13  # what falls lower is rounding, which another machine does otherwise


@dataclass(frozen=True)
class Fit:
    """What stands in for the MLP of one layer: a line for every hidden unit, and one linear map for the whole."""

    slope: Float[Tensor, " hidden"]
    shift: Float[Tensor, " hidden"]
    map: MlpWeights


Way = Callable[[Tensor, EncoderLayer, Fit], dict]
WAYS: dict[str, Way] = {
    "whole": lambda x, layer, fit: {},
    "without the MLP": lambda x, layer, fit: {"switches": Switches(mlp=False)},
    "without the MLP and its LayerNorm": lambda x, layer, fit: {"switches": Switches(mlp=False, norm_mlp=False)},
    "best line per unit": lambda x, layer, fit: {"activation": lambda z: fit.slope * z + fit.shift},
    "best linear map": lambda x, layer, fit: {"layer": replace(layer, mlp=fit.map), "switches": Switches(linear=True)},
    "z/2 in place of GELU": lambda x, layer, fit: {"activation": lambda z: z / 2},
    "z in place of GELU": lambda x, layer, fit: {"switches": Switches(linear=True)},
    "uniform attention": lambda x, layer, fit: {"patched_attention": level(x, layer)},
    "without attention": lambda x, layer, fit: {"layer": scale_attention(layer, 0.0)},
    "attention half as large": lambda x, layer, fit: {"layer": scale_attention(layer, 0.5)},
    "attention twice as large": lambda x, layer, fit: {"layer": scale_attention(layer, 2.0)},
}
"""What each way changes in the call of `run_layer`."""


def level(x: Float[Tensor, "position model"], layer: EncoderLayer) -> Float[Tensor, "head query key"]:
    """Return maps in which every query attends to all positions alike."""
    return x.new_full((layer.attention.heads, len(x), len(x)), 1 / len(x))


def scale_attention(layer: EncoderLayer, factor: float) -> EncoderLayer:
    """Return the layer with what attention adds to the stream so many times as large."""
    attention = layer.attention
    return replace(layer, attention=replace(attention, W_O=factor * attention.W_O, b_O=factor * attention.b_O))


def take_parts_out(device: torch.device) -> Result:
    """The residual of MiniLM with one part at a time taken out, and of the ladder of its controls.

    Run the documents in every way; residuals by state and way are logarithms to base 10.
    """
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))
    texts = [document.text for document in load_documents()]

    @lru_cache(maxsize=2)
    def fit(network: torch.nn.Module, half: int) -> list[Fit]:
        others = [text for k, text in enumerate(texts) if k % 2 != half]
        return fit_mlps(extraction.observe(network, tokenizer, others, LONGEST_FIT))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        layers, fits = load(network).encoder_layers(), fit(network, texts.index(text) % 2)
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        return measure_document(states, layers, fits)

    return survey_documents(measure, each_of_controls=1, dtype=torch.float64, device=device)


def measure_document(
    states: Float[Tensor, "state position model"], layers: Sequence[EncoderLayer], fits: Sequence[Fit]
) -> dict[str, np.ndarray]:
    """Run one document in every way, and look at each layer on what the whole network gives it to read."""
    runs = [run_way(states[0], layers, fits, way) for way in WAYS.values()]
    own = states[-1].mean(0)
    found = {
        "residual": torch.stack([residual(torch.stack(run)) for run, _ in runs], 1).clamp_min(1e-16).log10(),
        "cosine": torch.stack([torch.cosine_similarity(run[-1].mean(0), own, dim=0) for run, _ in runs]),
        "size": torch.stack([size for _, size in runs]),
        "hidden": torch.stack([look_at_hidden_rows(x, layer) for x, layer in zip(states, layers)]),
        "factor": torch.stack([shrink(x, layer) for x, layer in zip(states, layers)]),
        "fit": torch.stack([try_fit(x, layer, fit) for x, layer, fit in zip(states, layers, fits)]),
    }
    return {name: values.numpy(force=True) for name, values in found.items()}


def run_way(
    x: Float[Tensor, "position model"], layers: Sequence[EncoderLayer], fits: Sequence[Fit], way: Way
) -> tuple[list[Tensor], Tensor]:
    """Run all layers in one way; return the states, and how long attention's part is beside the stream it joins."""
    states, sizes = [x], []
    for layer, fit in zip(layers, fits, strict=True):
        activations = run_layer(states[-1], **{"layer": layer, **way(states[-1], layer, fit)})
        sizes.append(activations.attention_output.norm() / states[-1].norm())
        states.append(activations.second)
    return states, torch.stack(sizes).mean()


def fit_mlps(observed: extraction.Observed) -> list[Fit]:
    """Fit, by least squares over all rows, a line to every hidden unit and a linear map to the whole MLP."""
    fits = []
    for i, layer in enumerate(observed.layers):
        read = torch.cat([run_layer(states[i], layer).first for states in observed.states])
        z, written = read @ layer.mlp.W_in + layer.mlp.b_in, apply_mlp(read, layer.mlp)
        g = gelu(z)
        spread = z - z.mean(0)
        slope = (spread * (g - g.mean(0))).sum(0) / spread.square().sum(0)
        centred = read - read.mean(0)
        gram = centred.T @ centred
        eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        W = torch.linalg.solve(gram + RIDGE * gram.diagonal().mean() * eye, centred.T @ (written - written.mean(0)))
        shift = written.mean(0) - read.mean(0) @ W
        linear = MlpWeights(W, torch.zeros_like(shift), eye, shift)
        fits.append(Fit(slope, g.mean(0) - slope * z.mean(0), linear))
    return fits


def look_at_hidden_rows(x: Tensor, layer: EncoderLayer) -> Tensor:
    """Return what ``HIDDEN`` names, of what GELU reads and writes."""
    z = run_layer(x, layer).first @ layer.mlp.W_in + layer.mlp.b_in
    return torch.stack([gelu(z).mean(), (z < 0).double().mean(), residual(z), residual(gelu(z))])


def shrink(x: Tensor, layer: EncoderLayer) -> Tensor:
    """Return what the theorem on skip connections expects the residual to be multiplied by, and what it is."""
    a, mean = layer.attention, x.mean(0)
    added = torch.einsum("m,hmc,hcn->n", mean, a.W_V, a.W_O) + torch.einsum("hc,hcn->n", a.b_V, a.W_O) + a.b_O
    return torch.stack([mean.norm() / (mean + added).norm(), residual(run_layer(x, layer).before_first) / residual(x)])


def try_fit(x: Tensor, layer: EncoderLayer, fit: Fit) -> Tensor:
    """Return the share of the MLP's variance that the lines and the map explain here, and the mean slope."""
    read = run_layer(x, layer).first
    written = apply_mlp(read, layer.mlp)
    guesses = (
        apply_mlp(read, layer.mlp, lambda z: fit.slope * z + fit.shift),
        apply_mlp(read, fit.map, lambda hidden: hidden),
    )
    total = (written - written.mean(0)).square().sum()
    explained = [1 - (written - guess).square().sum() / total for guess in guesses]
    return torch.stack([*explained, fit.slope.mean()])


def turn_switches(device: torch.device) -> Result:
    """The residual of MiniLM and its controls, followed through their layers under every setting of the switches."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    documents = [document.text for document in load_documents(each=1)]

    def make(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network: torch.nn.Module) -> Float[np.ndarray, "skip mlp norm state"]:
        layers = load(network).encoder_layers()
        reads = [extraction.hidden_states(network, tokenizer, [text], LONGEST)[0][0] for text in documents]
        return trace(reads, layers)

    trained = make(None)
    arrays = {"trained": measure(trained), "controls": measure_controls(make_controls(trained, make), measure)}
    kept = {name: array.astype(np.float32) for name, array in arrays.items()}
    return Result({"rungs": Value(json.dumps(LEVELS))}, kept, dict.fromkeys(arrays, 1e-2))


def trace(
    reads: Sequence[Float[torch.Tensor, "position model"]], layers: Sequence[EncoderLayer]
) -> Float[np.ndarray, "skip mlp norm state"]:
    """Follow the residual of what each text's first layer reads, under every setting; mean of the logarithms."""
    residuals = np.empty((2, 2, 2, len(layers) + 1))
    for skip, mlp, norm in np.ndindex(2, 2, 2):
        switches = Switches(skip=bool(skip), mlp=bool(mlp), norm_attention=bool(norm), norm_mlp=bool(norm))
        traces = torch.stack([trace_residual(x, layers, switches) for x in reads])
        residuals[skip, mlp, norm] = traces.clamp_min(FLOOR).log10().mean(0).numpy(force=True)
    return residuals


EXPERIMENTS = {
    "bert-rank-ladder": Experiment(take_parts_out, models=("minilm",), minutes=4, seed=0),
    "bert-rank-switches": Experiment(turn_switches, models=("minilm",), minutes=1.5, seed=0),
}
