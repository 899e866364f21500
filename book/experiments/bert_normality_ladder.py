"""Rows, sums, cone index, singular values and entropy of MiniLM on documents of four kinds, and in its controls."""

import numpy as np
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import run_layer
from book.lab.document_ladder import survey_documents
from book.lab.mathematics import layer_profile
from book.publish.records import Experiment, Result

BY_LAYER = ("first_failing", "bare_failing", "D_sum", "D_sum_bare", "cosine", "cosine_bare", "resultant")
BY_HEAD = ("stable_rank", "entropy")


def compute(device: torch.device) -> Result:
    """Survey the documents."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        layers = load(network).encoder_layers()
        (states,) = extraction.hidden_states(network, tokenizer, [text])
        profile = layer_profile.measure([run_layer(x, layer) for x, layer in zip(states, layers)])
        tokens = states.shape[1]
        return {
            **{name: profile[name] for name in BY_LAYER},
            "D_total": profile["D_total"],
            **{name: profile[name].mean(1) for name in BY_HEAD},
            "cone": profile["cone"] / tokens,
            "cone_bare": profile["cone_bare"] / tokens,
            "largest": profile["largest"].mean(1) / tokens**0.5,
        }

    return survey_documents(measure, each_of_controls=3, device=device, tolerance=0.02)


EXPERIMENT = Experiment(
    "Normality, cone index, singular values and entropy of MiniLM and the ladder of its controls",
    compute,
    models=("minilm",),
    minutes=3,
    seed=0,
)
