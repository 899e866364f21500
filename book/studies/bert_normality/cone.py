"""How far rows point the same way: the cone index, forms of it that can be compared, and rows as directions in space.

Each row is divided by its length. Of a unit row three coordinates are kept: the first along the mean direction, which
is the cosine of its angle with it, and two along the principal axes of what is left. From layer to layer these two
axes are turned, together, to where the rows move least. Arrays are ``(network, text, state, ...)``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import NETWORKS, make_controls
from analysis.representations import anisotropy
from analysis.statistics.intervals import Interval
from analysis.transformer.layernorm import normalise
from book.lab.documents import load_documents
from book.publish.records import Experiment, Record, Result, Value
from book.studies.bert_normality.rows import DrawnText, depth_correlation, over_texts
from book.studies.shared.ladder import Arrays

# ---- The rows of MiniLM and of its controls as directions in space, layer by layer, for the viewer of the cone

TOKENS = 40  # of each document
SHOWN = {"trained": "MiniLM, trained", "random, as large": "random weights as large"}
"""The networks of the static picture, which shows the last layer, and their titles."""


@dataclass(frozen=True)
class Directions:
    """Unit rows of one text after the last layer, in the trained network and in a random one."""

    rows: Float[np.ndarray, "network position 3"]
    titles: tuple[str, ...]

    def start(self) -> dict[str, int | str]:
        """Return what the viewer shows at first; its network is the one beside the trained one."""
        return {"network": 2, "text": 0, "layer": 0, "row": 3, "look": "angles", "yaw": 30, "pitch": 20}


def directions(record: Record | Result) -> Directions:
    """Read what the static picture shows."""
    rows = record.array("rows")[[NETWORKS.index(name) for name in SHOWN], 0, -1].astype(np.float64)
    return Directions(rows, tuple(SHOWN.values()))


def compute(device: torch.device) -> Result:
    """Place the rows of one document of each kind, in every network."""
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

    >>> place(torch.tensor([[3.0, 4.0], [3.0, -4.0]]).double()).abs()
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


# ---- How far rows point the same way: the cone index, and forms of it that can be compared

FORMS = ("cone", "cone_bare", "resultant", "cosine")


@dataclass(frozen=True)
class Identities:
    """The identities of the cone index on the plain rows of one layer."""

    square_error: float
    """Of the squared index as the sum of all products of two rows, relative."""
    cosine_error: float
    """Of the mean cosine from the resultant length."""
    index: float
    bound: float


@dataclass(frozen=True)
class Embedding:
    """Rows of one network, and what their embeddings share."""

    cosines: list[float]
    """The mean cosine of two rows of the text that is drawn, in every state."""
    word_length: float
    """The mean length of a word's vector."""
    shared_length: float
    """The length of the vector of the token type."""


@dataclass(frozen=True)
class Cone:
    """The forms of the index by layer, with intervals over texts; each by network."""

    identities: Identities
    per_token: Mapping[str, Float[np.ndarray, "layer 3"]]
    resultant: Mapping[str, Float[np.ndarray, "layer 3"]]
    cosine: Mapping[str, Float[np.ndarray, "layer 3"]]
    resultant_padded: Mapping[str, Float[np.ndarray, "layer 3"]]
    rise: Mapping[str, Mapping[str, Interval]]
    """Rank correlation with depth of the index, of that of plain rows and of unit rows, and of the mean cosine."""
    ends: Mapping[str, Mapping[str, tuple[float, float]]]
    """The means of the same in the first and in the last layer."""
    embeddings: Mapping[str, Embedding]

    @property
    def climb(self) -> dict[str, float]:
        """How much the mean cosine rises from the first layer to the last, by network."""
        return {
            network: last - first
            for network, (first, last) in ((network, forms["cosine"]) for network, forms in self.ends.items())
        }


def measure_cone(text: DrawnText, arrays: Arrays) -> Cone:
    """Check the identities, average the forms over texts, and look at the embeddings."""
    forms = {
        name: {network: over_texts(values[name]) for network, values in arrays.items()}
        for name in ("resultant", "cosine", "pad_resultant")
    }
    return Cone(
        identities=_check_identities(normalise(text.stations["trained"][text.middle].before_second.double())),
        per_token={
            network: over_texts(values["cone"] / arrays["trained"]["tokens"][:, None])
            for network, values in arrays.items()
        },
        resultant=forms["resultant"],
        cosine=forms["cosine"],
        resultant_padded=forms["pad_resultant"],
        rise={network: {form: depth_correlation(values[form]) for form in FORMS} for network, values in arrays.items()},
        ends={
            network: {form: (values[form][:, 0].mean(), values[form][:, -1].mean()) for form in FORMS}
            for network, values in arrays.items()
        },
        embeddings=_describe_embeddings(text),
    )


def _check_identities(rows: Float[Tensor, "position model"]) -> Identities:
    count, width = rows.shape
    index, products = anisotropy.cone_index(rows), rows @ rows.T
    by_pairs = (products.trace() + 2 * products.triu(1).sum()).sqrt()
    directions = rows / rows.norm(dim=1, keepdim=True)
    mean_cosine = ((directions @ directions.T).sum() - count) / (count * (count - 1))
    return Identities(
        square_error=abs(index / by_pairs - 1).item(),
        cosine_error=abs(anisotropy.mean_pairwise_cosine(rows) - mean_cosine).item(),
        index=index.item(),
        bound=count * width**0.5,
    )


def _describe_embeddings(text: DrawnText) -> dict[str, Embedding]:
    trained, control = text.networks["trained"], text.networks["control"]
    return {
        "control": _describe(text.states["control"], control),
        "control without token types": _describe(text.bare_states, text.bare),
        "trained": _describe(text.states["trained"], trained),
    }


def _describe(states: Tensor, model: torch.nn.Module) -> Embedding:
    return Embedding(
        cosines=[anisotropy.mean_pairwise_cosine(rows).item() for rows in states],
        word_length=model.embeddings.word_embeddings.weight.norm(dim=1).mean().item(),
        shared_length=model.embeddings.token_type_embeddings.weight[0].norm().item(),
    )


EXPERIMENTS = {
    "directions": Experiment(
        "Rows of MiniLM and of its controls as directions in space, for the viewer of the cone",
        compute,
        models=("minilm",),
        minutes=0.2,
        seed=0,
    )
}
