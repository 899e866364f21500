"""What the parts of the score explain in MiniLM, layer by layer, and in the ladder of its controls."""

import numpy as np
import torch
from jaxtyping import Float

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import make_controls
from analysis.models.reading import load
from book.lab.ladder import measure_controls
from book.lab.score_shares import PARTS, split_layer
from book.lab.score_survey import read_texts
from book.publish.records import Experiment, Result

TEXTS = 3
MEASURES = ("divergence", *PARTS)


def compute(device: torch.device) -> Result:
    """Return nats by layer, mean of heads, rows and texts: of the trained model, and ``(level, seed, ...)``."""
    checkpoint = checkpoints.find("minilm")
    texts = [ids.to(device) for ids in read_texts(checkpoint)[:TEXTS]]
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
    for number, layer in enumerate(load(network).plain_layers()):
        split = split_layer([xs[number] for xs in read], layer, causal=False)
        rows.append([split.divergence.mean(), *split.parts[:, : len(PARTS)].mean(0)])
    return np.array(rows)


EXPERIMENT = Experiment(
    "What content, common part and semi-bias explain in MiniLM and in its controls",
    compute,
    models=("minilm",),
    minutes=2.0,
    seed=0,
)
