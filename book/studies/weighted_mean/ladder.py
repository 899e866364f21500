"""How far from uniform controls are: the ladder of them, beside the trained heads, in three models.

gpt2-mini and MiniLM read text. Of GPT-2 the first layer reads its own positions, alone and with stand-ins for tokens,
through its own LayerNorm: only the layer's matrices are exchanged.
"""

import numpy as np
import torch

from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.publish.records import Experiment, Result
from book.studies.shared.equality import entropy_shares
from book.studies.shared.ladder import measure_controls
from book.studies.weighted_mean.gpt2 import DRAWS, POSITIONS

MODELS, PASSAGES = ("gpt2-mini", "minilm"), 4


def compute(device: torch.device) -> Result:
    """Return ``(layer, head)`` shares of the full entropy, trained, and ``(rung, seed, layer, head)`` of controls."""
    arrays = {}
    for name in MODELS:
        trained, controls = of_model(name, device)
        arrays |= {name: trained, f"{name}-controls": controls}
    trained, controls = of_gpt2(device)
    arrays |= {"gpt2": trained, "gpt2-controls": controls}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def of_model(name: str, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Run a whole model and its controls on text."""
    checkpoint = checkpoints.find(name)
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def share(network):
        return entropy_shares(checkpoint, passages=PASSAGES, network=network, device=device)[0].cpu().numpy()

    return share(trained), measure_controls(make_controls(trained, draw), share)


def of_gpt2(device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Give GPT-2's first layer, and its controls, positions alone (first row) and with stand-ins (second row)."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    positions = model.positions[:POSITIONS]
    noise = torch.randn(DRAWS, *positions.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = model.norm("attention")
    inputs = [apply_norm(x, norm).to(device) for x in (positions[None], positions + positions.std() * noise)]
    trained = model.layers[0].plain().to(device)

    def draw(seed):
        return random_attention_layer(model, 0, seed, torch.float64).to(device)

    def share(layer):
        return np.stack([_share_of_entropy(x, layer) for x in inputs])

    return share(trained), measure_controls(make_controls(trained, draw), share)


def _share_of_entropy(x, layer) -> np.ndarray:
    scores = mask_future(compute_scores(x, layer))
    shares = entropy.entropy_at(scores, torch.ones(1).to(x))[0] / entropy.count_visible_keys(scores).log()
    return shares[..., 1:].mean((0, -1)).cpu().numpy()


EXPERIMENT = Experiment(
    "How far from uniform attention the controls of three models are",
    compute,
    models=("gpt2", *MODELS),
    minutes=1.5,
    seed=0,
)
