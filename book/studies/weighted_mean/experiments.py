"""What is recorded of the dial from uniform to sharp: of GPT-2, of the ladder of controls, of seeds of gpt2-mini."""

import numpy as np
import torch

from analysis.core.attention_layer import Norm
from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.controls import make_controls, random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, mask_future
from analysis.transformer.layernorm import apply_norm
from book.publish.records import Experiment, Result, Value
from book.studies.shared.equality import entropy_shares
from book.studies.shared.gpt2_mini_runs import SEEDS, find_run
from book.studies.shared.ladder import measure_controls

POSITIONS, DRAWS = 128, 8
DIALS = torch.cat([torch.zeros(1), torch.logspace(-2, 2, 33)]).double()


def curves(x, layer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return means over sequences and rows 2, 3, ...: ``(dial, head)`` entropy over ``log i``, and weight on itself."""
    scores = mask_future(compute_scores(x, layer))
    share = entropy.entropy_at(scores, DIALS.to(x)) / entropy.count_visible_keys(scores).log()
    return share[..., 1:].mean((1, -1)), scores.softmax(-1).diagonal(dim1=-2, dim2=-1)[..., 1:].mean((0, -1))


def turn_gpt2(device) -> Result:
    """Turn the dial for the trained layer and for the control."""
    checkpoint = checkpoints.find("gpt2")
    model = load(checkpoint, dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, POSITIONS, model.width, generator=g, dtype=torch.float64).to(device)
    positions = model.positions[:POSITIONS].to(device)
    norm = model.norm("attention").to(device)
    layer = model.layers[0].plain().to(device)
    random = random_attention_layer(model, 0, dtype=torch.float64).to(device)
    plain = Norm(torch.ones_like(norm.gain), torch.zeros_like(norm.bias), norm.eps)
    inputs = {
        "positions": (apply_norm(positions, norm)[None], layer),
        "stand_ins": (apply_norm(positions + positions.std() * noise, norm), layer),
        "control": (apply_norm(model.config.initializer_range * noise, plain), random),
    }
    arrays = {}
    for name, (x, w) in inputs.items():
        arrays[name], arrays[f"{name}_self"] = (a.cpu().numpy() for a in curves(x, w))
    return Result(
        {"positions": Value(POSITIONS), "draws": Value(DRAWS), "spread": Value(float(positions.std()), 1e-6)},
        {"dials": DIALS.numpy(), **arrays},
        {"dials": 1e-6, **dict.fromkeys(arrays, 1e-6)},
    )


MODELS, PASSAGES = ("gpt2-mini", "minilm"), 4


def measure_ladder(device: torch.device) -> Result:
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


def measure_seeds(device: torch.device) -> Result:
    """Return the shares of the full entropy, ``(seed, layer, head)``."""
    folders = [find_run(seed, device) for seed in SEEDS]
    shares = [
        entropy_shares(checkpoints.find(str(folder)), passages=PASSAGES, device=device)[0].cpu().numpy()
        for folder in folders
    ]
    return Result({}, {"shares": np.stack(shares)}, {"shares": 0.2})


EXPERIMENTS = {
    "gpt2": Experiment(
        "GPT-2's first-layer heads between uniform and sharp attention",
        turn_gpt2,
        models=("gpt2",),
        minutes=0.3,
        seed=0,
    ),
    "ladder": Experiment(
        "How far from uniform attention the controls of three models are",
        measure_ladder,
        models=("gpt2", *MODELS),
        minutes=1.5,
        seed=0,
    ),
    "seeds": Experiment(
        "How far from uniform attention several seeds of gpt2-mini are",
        measure_seeds,
        models=("gpt2-mini",),
        minutes=25.0,
        seed=SEEDS[-1],
    ),
}
