"""How asymmetric scores and attention are, for M as trained and for forms that lack what makes them so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from analysis.matrices import symmetry
from analysis.models.extraction import Observed
from analysis.transformer.attention import softmax
from book.studies.bert_similarity.networks import Models
from book.studies.shared.averages import mean

FEW = 4  # texts whose whole maps are compared
KINDS = ("as trained", "content alone", "symmetric part of M", "positive form")


@dataclass(frozen=True)
class Asymmetry:
    """The antisymmetric share of scores and of attention by layer, for several forms M."""

    scores: Mapping[str, Float[np.ndarray, " layer"]]
    attention: Mapping[str, Float[np.ndarray, " layer"]]
    negative: Mapping[str, float]  # share of the rows with a negative content score with themselves

    @property
    def mean_scores(self) -> dict[str, float]:
        """The mean over layers before the softmax."""
        return {kind: float(v.mean()) for kind, v in self.scores.items()}

    @property
    def mean_attention(self) -> dict[str, float]:
        """The mean over layers after the softmax."""
        return {kind: float(v.mean()) for kind, v in self.attention.items()}


def measure_asymmetry(subjects: Models) -> Asymmetry:
    """Measure the antisymmetric shares, and how many rows have a negative content score with themselves."""

    def shares(turn: Callable[[Tensor], Tensor]) -> dict[str, np.ndarray]:
        of_control = antisymmetric_shares(subjects.control, turn)["content alone"]
        return antisymmetric_shares(subjects.trained, turn) | {"control": of_control}

    def negative(o: Observed) -> float:
        with_itself = [
            symmetry.score_variants(s[i], layer)["content alone"].diagonal(dim1=1, dim2=2)
            for s in o.states[:FEW]
            for i, layer in enumerate(o.attention)
        ]
        return mean([(scores < 0).double().mean() for scores in with_itself])

    return Asymmetry(
        scores=shares(lambda scores: scores),
        attention=shares(softmax),
        negative={which: negative(o) for which, o in subjects.both.items()},
    )


def antisymmetric_shares(o: Observed, turn: Callable[[Tensor], Tensor]) -> dict[str, Float[np.ndarray, " layer"]]:
    """Return for every form the antisymmetric share of ``turn(scores)``, mean over the heads and the first texts."""
    by_layer = []
    for i, layer in enumerate(o.attention):
        variants = [symmetry.score_variants(s[i], layer) for s in o.states[:FEW]]
        by_layer.append(
            {kind: mean([symmetry.asymmetry(turn(scores[kind])).mean() for scores in variants]) for kind in KINDS}
        )
    return {kind: np.array([shares[kind] for shares in by_layer]) for kind in KINDS}
