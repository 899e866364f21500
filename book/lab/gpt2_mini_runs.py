"""Seeds of gpt2-mini: the bundled one, others that are trained where they do not lie already, and what is probed then.

A folder is looked for in ``ANALYSIS_RUNS``, then in ``runs``; what an interruption left there is gone on from.
"""

import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

from analysis.core.files import claim_folder
from analysis.decomposition.folding import fold_norm
from analysis.decomposition.terms import semi_bias
from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.statistics.correlation import recency
from analysis.transformer.layernorm import sigma
from book.lab.training import gpt2_mini

RUNS = "ANALYSIS_RUNS"
SEEDS = range(5)


def find_run(seed: int, device: torch.device | str = "cpu") -> Path:
    """Return the folder of the gpt2-mini of one seed; train it if there is none."""
    if seed == 0:
        return checkpoints.find(gpt2_mini.NAME).folder
    places = [Path(parent, f"{gpt2_mini.NAME}-{seed}") for parent in (os.environ.get(RUNS), "runs") if parent]
    for place in places:
        if (place / "trace.npz").exists():
            return _expect(place, seed)
    with claim_folder(places[-1], f"training of {gpt2_mini.NAME}"):
        gpt2_mini.train(places[-1], seed=seed, device=str(device), probe=semi_bias_probe)
    return places[-1]


def _expect(place: Path, seed: int) -> Path:
    card, _ = gpt2_mini.read_trace(place)
    if (card["seed"], card["steps"]) != (seed, gpt2_mini.STEPS):
        raise ValueError(
            f"{place} holds seed {card['seed']} after {card['steps']} steps, not seed {seed} after {gpt2_mini.STEPS}"
        )
    return place


def semi_bias_probe(step: int, model: nn.Module) -> dict[str, np.ndarray]:
    """Measure the positional semi-bias of every head of a GPT-2 language model.

    Raw as the document has it, ``b_Q W_K^T p / sqrt(channel)``; and folded, what layer 0 makes of a position alone:
    ``LN`` folded into the layer, ``p`` divided by ``sigma(p)``. From Kamoda's page, figure 2.

    Returns
    -------
    dict
        ``rank_correlation``, ``size`` and the same ``_folded``, each ``(layer, head)``: Spearman's correlation with
        the position (nan where the semi-bias is 0 everywhere, as before training) and standard deviation over
        positions in nats; ``semi_bias`` and ``semi_bias_folded``, ``(head, position)``, of layer 0 in nats.
    """
    p = model.transformer.wpe.weight.detach().double()
    read = load(model)
    both = [(layer.double(), read.norm("attention", i).double()) for i, layer in enumerate(read.plain_layers())]
    raw = torch.stack([semi_bias(p, layer) for layer, _ in both])
    folded = torch.stack([semi_bias(p / sigma(p, norm.eps)[:, None], fold_norm(layer, norm)) for layer, norm in both])
    measured = {
        "rank_correlation": recency(raw),
        "size": raw.std(-1),
        "semi_bias": raw[0],
        "rank_correlation_folded": recency(folded),
        "size_folded": folded.std(-1),
        "semi_bias_folded": folded[0],
    }
    return {name: value.cpu().numpy() for name, value in measured.items()}
