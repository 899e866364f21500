"""Heads on the dial, for the viewer: one sentence in two models and in their controls.

Arrays are ``(network, layer, head, query, key)``, the trained network first, then one control of each level. Scores are
logarithms of the attention less the largest of their row. An output's distance from another needs only the products of
the values' rows after ``W_O``, less their mean: differences of weights sum to zero.
"""

import json
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import NETWORKS, make_controls
from analysis.models.reading import load
from analysis.transformer.attention import project
from book.publish.records import Experiment, Result, Value

TEXT = "The name of the file is the name of the module."
MODELS = {"minilm": "base", "gpt2-mini": "lm"}
MARGIN = 6e4  # the lowest score that is kept, in nats below the row's largest; half precision ends above it


def compute(device: torch.device) -> Result:
    """Heads of two models and of their controls on the dial, for the viewer."""
    values, arrays = {"networks": Value(json.dumps(NETWORKS))}, {}
    for name, task in MODELS.items():
        checkpoint = checkpoints.find(name)
        tokenizer = pretrained.tokenizer(checkpoint)
        ids = tokenizer(TEXT, return_tensors="pt")["input_ids"].to(device)
        values[f"{name}_tokens"] = Value(json.dumps([tokenizer.decode([i]).strip() for i in ids[0].tolist()]))

        draw = partial(pretrained.load, checkpoint, task=task, dtype=torch.float64, device=device)
        trained = draw()
        controls = make_controls(trained, lambda seed, draw=draw: draw(control_seed=seed), seeds=[0])
        networks = [trained, *(control.network for control in controls)]
        scores, products = zip(*(read(network, ids) for network in networks), strict=True)
        arrays |= {f"{name}_scores": np.stack(scores), f"{name}_products": np.stack(products)}
    return Result(values, arrays, {key: 0.02 if key.endswith("scores") else 2e-3 for key in arrays})


@torch.no_grad()
def read(
    model: torch.nn.Module, ids: Tensor
) -> tuple[Float[np.ndarray, "layer head query key"], Float[np.ndarray, "layer head key key"]]:
    """Run a model; return the scores, and the products of the values' rows, each head's largest being 1."""
    out = model(ids, output_hidden_states=True, output_attentions=True)
    layers = load(model).plain_layers()
    inputs = extraction.attention_inputs(model, [state[0] for state in out.hidden_states])
    logs = torch.stack(out.attentions)[:, 0].log()
    scores = (logs - logs.amax(-1, keepdim=True)).clamp_min(-MARGIN)
    products = torch.stack(
        [
            multiply_values(torch.einsum("hkc,hcm->hkm", project(x, layer.W_V, layer.b_V), layer.W_O))
            for x, layer in zip(inputs, layers, strict=False)
        ]
    )
    return tuple(tensor.half().cpu().numpy() for tensor in (scores, products))


def multiply_values(rows: Float[Tensor, "head key model"]) -> Float[Tensor, "head key key"]:
    """Return the products of the rows less their mean, divided by the largest.

    >>> multiply_values(torch.tensor([[[5.0], [1.0]]]))
    tensor([[[ 1., -1.],
             [-1.,  1.]]])
    """
    centred = rows - rows.mean(1, keepdim=True)
    products = centred @ centred.mT
    return products / products.amax((1, 2), keepdim=True)


EXPERIMENT = Experiment(compute, models=tuple(MODELS), minutes=0.2, seed=0)
