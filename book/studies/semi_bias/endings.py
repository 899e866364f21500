"""What the semi-bias of gpt2-mini is like when a training has ended: of every seed, and of the first one's controls."""

from pathlib import Path

import numpy as np
import torch

from analysis.data import texts
from analysis.decomposition.terms import semi_bias
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from book.lab.training import gpt2_mini
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import FirstLayer
from book.studies.semi_bias.locality import attention_of_positions, overlap_with_text
from book.studies.shared.ladder import measure_controls

TEXTS = 8  # windows on which the attention is compared with that of positions alone
MEASURES = ("correlation", "spread", "mass of T^p", "mass of both")


def tilt(layer: FirstLayer) -> np.ndarray:
    """Return of ``T^p`` the rank correlation with the position and the spread in nats, and how near attention lies.

    Returns
    -------
    np.ndarray
        ``(measure, head)`` in the order of :data:`MEASURES`; a head without any semi-bias has a correlation of 0.
    """
    own, positions = attention_of_positions(layer)
    mass = positions.mass[1]
    return torch.stack([recency(own).nan_to_num(), own.std(-1), mass[0], mass[2]]).cpu().numpy()


@torch.no_grad()
def measure(folder: Path, frequency: torch.Tensor, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure a trained gpt2-mini.

    Returns
    -------
    dict
        ``tilt`` as above; ``overlap (head,)`` of the attention on text with that of positions alone; ``tokens
        (2, head)``, the rank correlations of token norm and semi-bias, plain and at equal frequency; ``losses (2,)`` on
        the passages in nats per token, as trained and without ``b_Q`` in the first layer.
    """
    checkpoint = checkpoints.find(str(folder))
    layer = first_layer.read(checkpoint, device=device)
    ids = gpt2_mini.encode(pretrained.tokenizer(checkpoint), "\n\n".join(texts.passages()))
    windows = gpt2_mini.windows(ids, first_layer.WINDOWS).to(device)
    model = pretrained.load(checkpoint, task="lm", dtype=torch.float64, device=device)
    norm, scores = layer.tokens.norm(dim=1), semi_bias(layer.tokens, layer.weights)
    tokens = [
        [rank_correlation(norm, head).value for head in scores],
        [partial_rank_correlation(norm, head, frequency.to(norm)) for head in scores],
    ]
    return {
        "tilt": tilt(layer),
        "overlap": overlap_with_text(layer, windows[:TEXTS, :-1])[0].cpu().numpy(),
        "tokens": np.array(tokens),
        "losses": np.array([first_layer.loss_without(model, windows, part) for part in (None, "b_Q")]),
    }


def measure_ladder(folder: Path, device: torch.device | str = "cpu") -> np.ndarray:
    """Return ``tilt`` of the controls, ``(rung, seed, measure, head)``.

    Only the matrices of the first layer are exchanged: LayerNorm, positions and tokens stay the trained ones, and so
    do, in the last rung, the biases. What the first two have of a semi-bias comes from the LayerNorm's bias.
    """
    checkpoint = checkpoints.find(str(folder))
    trained, model = first_layer.read(checkpoint, device=device), load(checkpoint)

    def draw(seed: int):
        return random_attention_layer(model, 0, seed, torch.float64).to(device)

    def measured(weights) -> np.ndarray:
        return tilt(FirstLayer(weights, trained.ln, trained.positions, trained.tokens))

    return measure_controls(make_controls(trained.weights, draw), measured)
