"""How far rows point the same way: the cone index, and forms of it that can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.representations import anisotropy
from analysis.statistics.intervals import Interval
from analysis.transformer.layernorm import normalise
from book.studies.bert_normality.drawn import DrawnText
from book.studies.bert_normality.rows import depth_correlation, over_texts
from book.studies.shared.networks import Arrays

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
