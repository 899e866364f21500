"""The residual of MiniLM with parts switched off, on documents of four kinds, and that of its controls."""

import numpy as np
import torch
from torch.nn.functional import gelu

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.representations.rank_collapse import residual, trace_residual
from analysis.transformer.encoder import Switches, encode_layer
from book.publish.records import Experiment, Result
from book.studies.shared.documents import survey_documents

LONGEST = 32  # tokens of a document
WAYS = {"all": (Switches(), gelu), "no MLP": (Switches(mlp=False), gelu), "linear MLP": (Switches(linear=True), gelu)}
HIDDEN = ("mean of GELU", "share below zero", "residual before", "residual after")


def compute(device: torch.device) -> Result:
    """Trace the documents; residuals by state and way are logarithms to base 10."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        layers = load(network).encoder_layers()
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        traces = [trace_residual(states[0], layers, *way) for way in WAYS.values()]
        return {
            "residual": torch.stack(traces, 1).clamp_min(1e-16).log10().numpy(force=True),
            "hidden": np.stack([_hidden(x, layer) for x, layer in zip(states, layers)]),
        }

    return survey_documents(measure, each_of_controls=1, dtype=torch.float64, device=device)


def _hidden(x, layer) -> np.ndarray:
    z = encode_layer(x, layer, Switches(mlp=False)) @ layer.mlp.W_in + layer.mlp.b_in
    return torch.stack([gelu(z).mean(), (z < 0).double().mean(), residual(z), residual(gelu(z))]).numpy(force=True)


EXPERIMENT = Experiment(
    "The residual of MiniLM with parts switched off, and of the ladder of its controls",
    compute,
    models=("minilm",),
    minutes=2,
    seed=0,
)
