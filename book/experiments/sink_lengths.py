"""What MiniLM's sink is worth in texts of several lengths: its share, and what deleting it or giving it away does."""

from collections.abc import Sequence

import numpy as np
import torch

from analysis.core.weights import EncoderLayer
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from book.lab.ablation import WAYS, choose_sink, hold_volume, measure_ways, run_without, turned
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result

LENGTHS = (16, 32, 64, 96, 128, 256)  # tokens; a document with fewer is left out
SEED = 0  # of the first document's random cells
NOTHING = np.nan, [np.nan] * len(WAYS), np.nan  # what is measured of a document that is too short


def compute(device: torch.device) -> Result:
    """Return by length and document the sink's share, how far each way turns the sentence, and one volume per head."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    share, effect, held = [], [], []
    for length in LENGTHS:
        found = []
        for seed, document in enumerate(load_documents(), SEED):
            (states,) = extraction.hidden_states(network, tokenizer, [document.text], length)
            found.append(measure_document(states, layers, seed) if states.shape[1] == length else NOTHING)
        share.append([each[0] for each in found])
        effect.append([each[1] for each in found])
        held.append([each[2] for each in found])
    arrays = {"share": share, "effect": effect, "held": held}
    return Result({}, {name: np.array(of, np.float32) for name, of in arrays.items()}, dict.fromkeys(arrays, 1e-4))


def measure_document(states: torch.Tensor, layers: Sequence[EncoderLayer], seed: int) -> tuple:
    """Return the sink's share of the attention, the effect of every way, and that of one volume per head."""
    found = measure_ways(states, layers, choose_sink, list(WAYS), seed)
    share = torch.stack(run_without(states[0], layers, lambda maps: maps * choose_sink(maps), lambda maps, _: maps)[1])
    rows, _ = run_without(states[0], layers, lambda maps: maps * choose_sink(maps), hold_volume)
    return share.mean().item(), [effect for effect, _ in found], turned(rows, states[-1])


EXPERIMENT = Experiment(
    "What MiniLM's sink is worth in texts of several lengths", compute, models=("minilm",), minutes=3, seed=SEED
)
