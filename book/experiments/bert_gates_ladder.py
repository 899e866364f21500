"""The gates of MiniLM and of the ladder of its controls on 24 documents, and whether a query bias makes the columns."""

import numpy as np
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from book.lab.document_ladder import survey_documents
from book.lab.layer_gates import read_layer
from book.lab.map_counts import PRESENT
from book.publish.records import Experiment, Result

LONGEST, EACH = 128, 1  # tokens of a document, and documents of every kind for the controls


def compute(device: torch.device) -> Result:
    """Read the maps of the documents."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, trained: torch.nn.Module) -> dict[str, np.ndarray]:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST)
        layers, lent = load(network).plain_layers(), [layer.b_Q for layer in load(trained).layers]
        by_layer = [read_layer(x, layer, bias, PRESENT) for x, layer, bias in zip(states, layers, lent)]
        return {name: np.stack([layer[name] for layer in by_layer]) for name in by_layer[0]}

    return survey_documents(measure, each_of_controls=EACH, device=device, tolerance=0.02)


EXPERIMENT = Experiment(
    "Gates of MiniLM and of the ladder of its controls, and whether a query bias makes the columns",
    compute,
    models=("minilm",),
    minutes=4,
    seed=0,
)
