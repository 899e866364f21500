"""How far from uniform attention three models are, and the ladder of their controls."""

import numpy as np
import torch

from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import Model, load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.lab.equality import entropy_shares
from book.lab.ladder import measure_controls
from book.publish.records import Experiment, Result

POSITIONS, DRAWS = 128, 8
MODELS, PASSAGES = ("gpt2-mini", "minilm"), 4


def compute(device: torch.device) -> Result:
    """Return ``(layer, head)`` shares of the full entropy, trained, and ``(level, seed, layer, head)`` of controls."""
    found = {name: of_model(checkpoints.find(name), device) for name in MODELS}
    found["gpt2"] = of_first_layer(load(checkpoints.find("gpt2"), dtype=torch.float64), device)
    arrays = {name: trained for name, (trained, _) in found.items()}
    arrays |= {f"{name}-controls": controls for name, (_, controls) in found.items()}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


def of_model(checkpoint: Checkpoint, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Run a whole model and its controls on text."""
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def share(network):
        return entropy_shares(checkpoint, passages=PASSAGES, network=network, device=device)[0].cpu().numpy()

    return share(trained), measure_controls(make_controls(trained, draw), share)


def of_first_layer(model: Model, device: torch.device) -> tuple[np.ndarray, np.ndarray]:
    """Give a first layer, and its controls, positions alone (first row) and with stand-ins (second row)."""
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
