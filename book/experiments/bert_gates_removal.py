"""MiniLM without the sink's column, and without the cells that the gate detector named, on 24 documents."""

import numpy as np
import torch

from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from book.lab.ablation import WAYS, choose_gate, choose_sink, measure_ways
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LONGEST, SEED = 64, 0  # tokens of a document; the seed of the first one's random cells
SHORT = list(WAYS)[:2]


def compute(device: torch.device) -> Result:
    """Return effects and shares: of the sink ``(document, way)``, of named cells ``(document, gate, way)``."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    sink, named = [], []
    for seed, document in enumerate(load_documents()):
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        sink.append(measure_ways(states, layers, choose_sink, list(WAYS), seed))
        named.append([measure_ways(states, layers, choose_gate(gate), SHORT, seed) for gate in range(len(gates.GATES))])
    (turned, taken), (effect, share) = (np.moveaxis(np.array(found, np.float32), -1, 0) for found in (sink, named))
    arrays = {"sink": turned, "sink share": taken, "effect": effect, "share": share}
    return Result({}, arrays, {"sink": 1e-4, "sink share": 1e-4, "effect": 5e-3, "share": 0.01})


EXPERIMENT = Experiment(
    "MiniLM without the sink's column, and without the cells that the gate detector named",
    compute,
    models=("minilm",),
    minutes=3,
    seed=SEED,
)
