"""What each head of MiniLM contributes to the sentence embedding: one head at a time silenced or made uniform."""

import numpy as np
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.lab.ablation import measure_heads
from book.publish.records import Experiment, Result, Value

TEXTS, WORDS, SEED = 8, 100, 0


def compute(device: torch.device) -> Result:
    """Silence or level each head of the trained model and of its control."""
    found = checkpoints.find("minilm")
    tokenizer, passages = pretrained.tokenizer(found), texts.passages(longest=WORDS)[:TEXTS]
    values, arrays = {}, {}
    for prefix, seed in (("", None), ("control_", SEED)):
        model = pretrained.load(found, control_seed=seed, attention="sdpa", device=device)
        effect, whole = (measured.numpy() for measured in measure_heads(model, tokenizer, passages))
        arrays |= {f"{prefix}{way}": effect[..., i].astype(np.float32) for i, way in enumerate(("zero", "uniform"))}
        unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
        apart = (1 - unit @ unit.T)[np.triu_indices(len(unit), 1)]
        values[f"{prefix}between_texts"] = Value(float(apart.mean()), 1e-4, n=len(apart))
    return Result(values, arrays, dict.fromkeys(arrays, 1e-4))


EXPERIMENT = Experiment(
    summary="effect of each head of MiniLM and of its control on the sentence embedding",
    models=("minilm",),
    compute=compute,
    minutes=3,
    seed=SEED,
)
