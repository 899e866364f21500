"""What the parts of the score explain in MiniLM and in the ladder of its controls, layer by layer."""

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import make_controls
from analysis.models.reading import load
from book.publish.records import Experiment, Result
from book.studies.one_score_four_parts.parts import inputs, split_layer
from book.studies.shared.ladder import measure_controls

TEXTS = 3
MEASURES = ("divergence", "content", "common", "semi-bias")


def compute(device: torch.device) -> Result:
    """Return nats by layer, mean of heads, rows and texts: of the trained model, and ``(rung, seed, ...)``."""
    checkpoint = checkpoints.find("minilm")
    texts = [ids.to(device) for ids in inputs(checkpoint)[:TEXTS]]
    trained = pretrained.load(checkpoint, dtype=torch.float64, device=device)

    def draw(seed):
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network):
        return nats(network, texts)

    arrays = {"trained": measure(trained), "controls": measure_controls(make_controls(trained, draw), measure)}
    return Result({}, arrays, dict.fromkeys(arrays, 1e-4))


@torch.no_grad()
def nats(network: torch.nn.Module, texts: list[torch.Tensor]) -> Float[np.ndarray, "layer measure"]:
    """Return divergence, content, common part and semi-bias of each layer, in the order of ``MEASURES``."""
    runs = [network(ids[None], output_hidden_states=True).hidden_states for ids in texts]
    read = [extraction.attention_inputs(network, [state[0] for state in states]) for states in runs]
    rows = []
    for layer, weights in enumerate(load(network).plain_layers()):
        divergence, parts, *_ = split_layer([xs[layer] for xs in read], weights, False)
        rows.append([divergence.mean(), *parts[:, :3].mean(0)])
    return np.array(rows)


EXPERIMENT = Experiment(
    "What content, common part and semi-bias explain in MiniLM and in its controls",
    compute,
    models=("minilm",),
    minutes=2.0,
    seed=0,
)
