"""The rows of MiniLM and of its controls as directions in space, layer by layer, for the viewer of the cone.

Each row is divided by its length. Of a unit row three coordinates are kept: the first along the mean direction, which
is the cosine of its angle with it, and two along the principal axes of what is left. From layer to layer these two
axes are turned, together, to where the rows move least. Arrays are ``(network, text, state, ...)``.
"""

import json

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import NETWORKS, make_controls
from analysis.representations import anisotropy
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result, Value

TOKENS = 40  # of each document


def compute(device: torch.device) -> Result:
    """Rows of MiniLM and of its controls as directions in space, for the viewer of the cone."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    documents = load_documents(each=1)
    tokens = [
        tokenizer.convert_ids_to_tokens(tokenizer(document.text, truncation=True, max_length=TOKENS)["input_ids"])
        for document in documents
    ]

    def load(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)

    def measure(network: torch.nn.Module) -> tuple[np.ndarray, np.ndarray]:
        states = extraction.hidden_states(network, tokenizer, [document.text for document in documents], TOKENS)
        placed = [align(torch.stack([place(x) for x in of_text])) for of_text in states]
        index = torch.stack([anisotropy.cone_index(of_text) for of_text in states])
        return torch.stack(placed).half().cpu().numpy(), index.float().cpu().numpy()

    trained = load(None)
    networks = [trained, *(control.network for control in make_controls(trained, load, seeds=[0]))]
    rows, index = zip(*(measure(network) for network in networks), strict=True)
    values = {
        "networks": Value(json.dumps(NETWORKS)),
        "tokens": Value(json.dumps(tokens)),
        "texts": Value(json.dumps([f"{document.kind}: {document.name}" for document in documents])),
    }
    arrays = {"rows": np.stack(rows), "index": np.stack(index)}
    return Result(values, arrays, {"rows": 5e-3, "index": 0.05})


def place(rows: Float[Tensor, "position model"]) -> Float[Tensor, "position 3"]:
    """Return the unit rows along their mean direction and along the two principal axes of what is left.

    An axis has no sign of its own: it points to where the row lies that is furthest out along it.

    >>> place(torch.tensor([[3.0, 4.0], [3.0, -4.0]]).double()).abs().round(decimals=9)
    tensor([[0.6000, 0.8000, 0.0000],
            [0.6000, 0.8000, 0.0000]], dtype=torch.float64)
    """
    unit = anisotropy.unit(rows)
    axis = anisotropy.unit(unit.mean(0))
    along = unit @ axis
    rest = unit - along[:, None] * axis
    _, _, principal = torch.linalg.svd(rest, full_matrices=False)
    across = rest @ principal[:2].mT
    furthest = across.gather(0, across.abs().argmax(0, keepdim=True))
    return torch.cat([along[:, None], across * furthest.sign()], 1)


def align(placed: Float[Tensor, "state position 3"]) -> Float[Tensor, "state position 3"]:
    """Turn or mirror the last two axes of each state to where its rows lie nearest to those of the state before.

    >>> here = torch.tensor([[0.5, 0.8, 0.0], [0.5, 0.0, 0.4]])
    >>> turned = torch.stack([here[:, 0], here[:, 2], here[:, 1]], 1)
    >>> bool(torch.allclose(align(torch.stack([here, turned]))[1], here, atol=1e-6))
    True
    """
    states = [placed[0]]
    for state in placed[1:]:
        left, _, right = torch.linalg.svd(state[:, 1:].mT @ states[-1][:, 1:])
        states.append(torch.cat([state[:, :1], state[:, 1:] @ left @ right], 1))
    return torch.stack(states)


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=0.2, seed=0)
