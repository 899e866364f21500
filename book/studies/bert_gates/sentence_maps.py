"""All attention maps of one sentence, and what each of their cells is read as."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int8

from analysis.maps import gates, streaming
from analysis.models import attention_hooks, checkpoints, pretrained
from book.publish import Inputs

SENTENCE = (
    "The bank raised its rates, and the bank of the river rose too. When the water fell, "
    "the old bridge stood where it had always stood."
)
NEARLY_ONE = 0.99


@dataclass(frozen=True)
class SentenceMaps:
    """A model's maps of one sentence, each cell's gate as an index into ``gates.GATES``, and each map's shares."""

    model: str
    text: str
    tokens: list[str]
    maps: Float[np.ndarray, "layer head query key"]
    cells: Int8[np.ndarray, "layer head query key"]
    scores: Float[np.ndarray, "layer head gate"]
    smallest_weight: float
    weights_for_each_near_one: float  # so many weights for each that exceeds NEARLY_ONE


def measure_sentence(inputs: Inputs) -> SentenceMaps:
    """Run the model on the sentence, keep its maps and read their gates."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, model = pretrained.tokenizer(checkpoint), pretrained.load(checkpoint, device=inputs.device)
    encoding = tokenizer(SENTENCE, return_tensors="pt").to(inputs.device)
    by_layer = []
    collect = streaming.visit_maps(lambda _, maps: by_layer.append(maps[0]))
    with torch.no_grad(), attention_hooks.with_attention(model, collect):
        model(**encoding)
    maps = torch.stack(by_layer)
    reading = gates.read_gates(maps, causal=bool(maps.triu(1).max() == 0))
    return SentenceMaps(
        checkpoint.name,
        SENTENCE,
        tokenizer.convert_ids_to_tokens(encoding["input_ids"][0]),
        maps.cpu().numpy(),
        reading.cells.cpu().numpy(),
        reading.scores.cpu().numpy(),
        smallest_weight=maps.min().item(),
        weights_for_each_near_one=(maps > NEARLY_ONE).double().mean().reciprocal().item(),
    )
