"""How asymmetric scores and attention are, and what stretches and lengths of rows do to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual, Scores
from analysis.maps import distance
from analysis.matrices import spectra, symmetry
from analysis.models.extraction import Observed
from analysis.statistics.intervals import Interval
from analysis.transformer.attention import compute_scores, softmax
from book.lab.mathematics import stretching
from book.studies.bert_similarity.networks import DrawnHead, Models
from book.studies.shared.averages import interval, mean

# ---- How asymmetric scores and attention are, for M as trained and for forms that lack what makes them so

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


# ---- How far W_Q, W_K and W_V can stretch a row, and how far the rows of texts are stretched


@dataclass(frozen=True)
class Stretching:
    """What the largest singular values allow, and what happens to the rows of the texts.

    Growth is the norm of a row of Q, K or V over the norm of its row of X, dimensionless.
    """

    norms: Mapping[str, Float[np.ndarray, "kind row"]]  # of X, Q, K, V in the drawn head
    largest: Mapping[str, Float[np.ndarray, "map head_of_all_layers"]]
    growth: Mapping[str, Float[Tensor, "map head_of_all_layers row"]]
    mean_growth: Mapping[str, Float[np.ndarray, "map head_of_all_layers"]]  # over all directions
    over: Mapping[str, list[float]]  # share of the heads with a largest singular value above 1
    alone: Mapping[str, list[Interval]]  # share of the pairs of row and head with a growth above 1
    joint: Mapping[str, list[float]]  # share of the rows that all heads of a layer together amplify
    furthest: list[float]  # the largest growth of all in the trained model
    amplified_V: int


def measure_stretching(subjects: Models, drawn: DrawnHead) -> Stretching:
    """Measure largest singular values, and the growth of every row in every head, with biases."""
    both = subjects.both
    largest = {which: stretching.over_heads(spectra.spectral_norm, o.attention) for which, o in both.items()}
    by_text = {which: [stretching.amplifications(s, o.attention) for s in o.states] for which, o in both.items()}
    of_means = {which: stretching.over_heads(stretching.mean_amplification, o.attention) for which, o in both.items()}
    return Stretching(
        norms={
            which: stretching.row_norms(o.rows(drawn.layer), o.attention[drawn.layer], drawn.head).cpu().numpy()
            for which, o in both.items()
        },
        largest={which: sigma.flatten(1).cpu().numpy() for which, sigma in largest.items()},
        growth={which: torch.cat(growth, -1).flatten(1, 2).cpu() for which, growth in by_text.items()},
        mean_growth={which: growth.flatten(1).cpu().numpy() for which, growth in of_means.items()},
        over={which: (sigma > 1).double().mean((1, 2)).tolist() for which, sigma in largest.items()},
        alone={
            which: [interval([(g[k] > 1).double().mean() for g in growth]) for k in range(3)]
            for which, growth in by_text.items()
        },
        joint={
            which: [mean([(g[k].square().sum(1) > 1).double().mean() for g in growth]) for k in range(3)]
            for which, growth in by_text.items()
        },
        furthest=[max(g[k].max().item() for g in by_text["trained"]) for k in range(3)],
        amplified_V=int(sum((g[2] > 1).sum() for g in by_text["trained"])),
    )


# ---- What the lengths of rows do to scores and to attention


@dataclass(frozen=True)
class Lengths:
    """What the lengths of rows do to scores and attention."""

    spread: Mapping[str, list[float]]  # standard deviation over mean of the lengths, by layer
    scaling_error: float  # of the scores of a row that is three times as long, relative to three times the scores
    cosine_error: float  # largest change of its cosines
    moved: list[float]  # share of attention that moves with all rows at one length, by layer


def measure_lengths(subjects: Models, layer: int) -> Lengths:
    """Make one row three times as long, and all rows equally long."""
    trained = subjects.trained
    bare, x = symmetry.without(trained.attention[layer], "b_Q", "b_K"), trained.states[0][layer]
    longer = torch.cat([x[:1], 3 * x[1:2], x[2:]])
    before, after = (compute_scores(rows, bare)[:, 1, 2:] for rows in (x, longer))
    cosines, of_longer = (torch.nn.functional.cosine_similarity(rows[1:2], rows, dim=-1) for rows in (x, longer))
    return Lengths(
        spread={
            which: [(o.rows(i).norm(dim=1).std() / o.rows(i).norm(dim=1).mean()).item() for i in range(len(o.layers))]
            for which, o in subjects.both.items()
        },
        scaling_error=((after - 3 * before).norm() / (3 * before).norm()).item(),
        cosine_error=(cosines - of_longer).abs().max().item(),
        moved=[
            mean(
                [
                    distance.attention_moved(s[i], weights_of_layer, rows=symmetry.equalise_norms(s[i])).mean()
                    for s in trained.states
                ]
            )
            for i, weights_of_layer in enumerate(trained.attention)
        ],
    )
