"""How asymmetric scores and attention are, for M as trained and for forms that lack what makes them so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual, Scores
from analysis.matrices import symmetry
from analysis.models.extraction import Observed
from analysis.transformer.attention import softmax
from book.studies.bert_similarity.networks import Models
from book.studies.shared.averages import interval

TRAINED, CONTENT, SYMMETRIC, POSITIVE = "as trained", "content alone", "symmetric part of M", "positive form"
LESS_COMMON, COMMON = "content less its common part", "common part of content alone"
EQUAL = ", equal spread"
KINDS = (TRAINED, CONTENT, LESS_COMMON, COMMON, SYMMETRIC, POSITIVE)
DRAWN = {
    CONTENT: "with the whole of M",
    LESS_COMMON + EQUAL: "without what all words ask alike",
    SYMMETRIC + EQUAL: "with the symmetric half of M",
    "control": "random weights",
}


@dataclass(frozen=True)
class Asymmetry:
    """The antisymmetric share of scores and of attention by layer, for several forms, mean over heads and texts."""

    scores: Mapping[str, Float[np.ndarray, " layer"]]
    attention: Mapping[str, Float[np.ndarray, " layer"]]
    over_texts: Mapping[str, Float[np.ndarray, "3"]]
    """The share of attention, mean over layers too, with its interval over texts."""
    spread: Mapping[str, float]
    """The spread of the scores, see :func:`spread_of_rows`."""
    texts: int
    negative: Mapping[str, float]  # share of the rows with a negative content score with themselves

    @property
    def drawn_scores(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """The scores of the forms that are drawn."""
        return {name: self.scores[kind] for kind, name in DRAWN.items()}

    @property
    def drawn_attention(self) -> dict[str, Float[np.ndarray, " layer"]]:
        """The attention of the forms that are drawn."""
        return {name: self.attention[kind] for kind, name in DRAWN.items()}

    @property
    def mean_scores(self) -> dict[str, float]:
        """The mean over layers before the softmax."""
        return {kind: float(v.mean()) for kind, v in self.scores.items()}

    @property
    def mean_attention(self) -> dict[str, float]:
        """The mean over layers after the softmax."""
        return {kind: float(v.mean()) for kind, v in self.attention.items()}


def spread_of_rows(scores: Scores) -> Float[Tensor, "head 1 1"]:
    """Return how far the scores of each head lie from the mean of their row, as the root of the mean square."""
    return (scores - scores.mean(-1, keepdim=True)).square().mean((-2, -1), keepdim=True).sqrt()


def forms_of_scores(x: Residual, weights: AttentionLayer) -> dict[str, Scores]:
    """Return the scores of every form: what it is called, and, with ``EQUAL``, at the spread of the content.

    Attention is the more asymmetric the further its scores lie apart, and a form that takes something from the scores
    takes some of their spread as well. Scaled to the spread of the content, head by head, it shows what the form does
    besides. The common part of the content is what all queries share: the mean of a key's scores.
    """
    forms = symmetry.score_variants(x, weights)
    content = forms[CONTENT]
    common = content.mean(-2, keepdim=True).expand_as(content)
    forms |= {LESS_COMMON: content - common, COMMON: common}
    spread = spread_of_rows(content)
    equal = {kind + EQUAL: forms[kind] * (spread / spread_of_rows(forms[kind])) for kind in KINDS}
    return forms | equal


def measure_asymmetry(subjects: Models) -> Asymmetry:
    """Measure the antisymmetric shares, and how many rows have a negative content score with themselves."""
    trained = measure_forms(subjects.trained, forms_of_scores)
    control = measure_forms(subjects.control, lambda *layer: {CONTENT: symmetry.score_variants(*layer)[CONTENT]})
    tables = trained | {"control": control[CONTENT]}
    by_layer = {kind: table.mean(0) for kind, table in tables.items()}
    return Asymmetry(
        scores={kind: values[:, 0] for kind, values in by_layer.items()},
        attention={kind: values[:, 1] for kind, values in by_layer.items()},
        over_texts={kind: np.array(interval(table[..., 1].mean(1))) for kind, table in tables.items()},
        spread={kind: float(values[:, 2].mean()) for kind, values in by_layer.items()},
        texts=len(subjects.trained.states),
        negative={"trained": float(by_layer[CONTENT][:, 3].mean()), "control": float(by_layer["control"][:, 3].mean())},
    )


def measure_forms(
    o: Observed, forms: Callable[[Residual, AttentionLayer], dict[str, Scores]]
) -> dict[str, Float[np.ndarray, "text layer 4"]]:
    """Return, for every form, means over heads.

    They are the antisymmetric share of the scores and of the attention, the spread of the scores, and the share of the
    rows whose score with themselves is negative.
    """
    by_text = [
        [
            {kind: measure_scores(scores) for kind, scores in forms(states[i], layer).items()}
            for i, layer in enumerate(o.attention)
        ]
        for states in o.states
    ]
    return {kind: np.array([[layer[kind] for layer in layers] for layers in by_text]) for kind in by_text[0][0]}


def measure_scores(scores: Scores) -> list[float]:
    """Return what :func:`measure_forms` lists, of the scores of one layer."""
    of_heads = (
        symmetry.asymmetry(scores),
        symmetry.asymmetry(softmax(scores)),
        spread_of_rows(scores),
        (scores.diagonal(dim1=-2, dim2=-1) < 0).double(),
    )
    return [values.mean().item() for values in of_heads]
