"""The form M = W_Q W_K^T, and the four terms of a score, with what is left of attention without each bias."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.terms import score_terms
from analysis.maps import distance
from analysis.matrices import spectra, symmetry
from analysis.models.extraction import Observed
from analysis.statistics.intervals import Interval
from analysis.transformer.attention import compute_scores, softmax
from book.studies.bert_similarity.networks import DrawnHead, Models
from book.studies.shared.averages import interval

# ---- The form M = W_Q W_K^T: its eigenvalues, its rank, and how much of it is antisymmetric


@dataclass(frozen=True)
class Form:
    """The form M = W_Q W_K^T: signs of the eigenvalues of its symmetric part, its rank and its antisymmetric share."""

    eigenvalues: Mapping[str, Float[np.ndarray, " eigenvalue"]]  # of the drawn head
    signs: Mapping[str, list[tuple[int, int]]]  # all pairs of numbers of positive and negative eigenvalues
    antisymmetric: Mapping[str, Float[np.ndarray, "layer head"]]
    channel: int
    last_singular_value: float  # the smallest of the first d_k over the largest, in the worst head
    next_singular_value: float  # the one after d_k over the largest, in the worst head of the drawn layer
    negative_if_equal: int  # negative eigenvalues with W_K in place of W_Q


def measure_form(subjects: Models, drawn: DrawnHead) -> Form:
    """Take the signs, the rank and the antisymmetric share of M in every head."""
    both, attention = subjects.both, subjects.trained.attention
    forms = {which: [symmetry.symmetric_signature(a.W_Q, a.W_K) for a in o.attention] for which, o in both.items()}
    values = torch.stack([spectra.product_singular_values(a.W_Q.double(), a.W_K.double()) for a in attention])
    shown = attention[drawn.layer]
    return Form(
        eigenvalues={which: f[drawn.layer].eigenvalues[drawn.head].cpu().numpy() for which, f in forms.items()},
        signs={
            which: sorted(
                {pair for f in of_layers for pair in zip(f.positive.tolist(), f.negative.tolist(), strict=True)}
            )
            for which, of_layers in forms.items()
        },
        antisymmetric={
            which: torch.stack([f.antisymmetric for f in of_layers]).cpu().numpy() for which, of_layers in forms.items()
        },
        channel=shown.channel,
        last_singular_value=(values[..., -1] / values[..., 0]).min().item(),
        next_singular_value=singular_value_after(shown),
        negative_if_equal=symmetry.symmetric_signature(shown.W_K, shown.W_K).negative.max().item(),
    )


def singular_value_after(layer: AttentionLayer) -> float:
    """Return singular value d_k + 1 of M over its largest, for the head where it is largest; 0 if there is none."""
    values = torch.linalg.svdvals(layer.W_Q.double() @ layer.W_K.double().mT)
    return (values[:, layer.channel :] / values[:, :1]).max().item() if values.shape[1] > layer.channel else 0.0


# ---- The four terms of a score, and what is left of attention without each of the biases


@dataclass(frozen=True)
class Terms:
    """The four terms of a score, and the share of attention that moves when biases are dropped, by layer."""

    random_error: float  # relative, for random matrices of BERT BASE's size
    model_error: float
    dropped_gap: float  # largest change of an attention weight without the two row constants
    without_b_K: list[Interval]
    without_b_Q: list[Interval]
    control_without_b_Q: list[Interval]
    key_bias_ratio: float  # |b_K| / |b_Q|


def measure_terms(subjects: Models, layer: int) -> Terms:
    """Add the four terms up, and drop them one by one."""
    trained, first = subjects.trained, subjects.trained.attention[layer]
    x = trained.states[0][layer]
    scores, terms = compute_scores(x, first), score_terms(x, first)
    kept = softmax(terms.content + terms.semi_bias)
    size = {name: torch.cat([getattr(a, name) for a in trained.attention]).norm() for name in ("b_Q", "b_K")}
    return Terms(
        random_error=four_term_error(x.device),
        model_error=(terms.total() - scores).abs().max().item(),
        dropped_gap=(kept - softmax(scores)).abs().max().item(),
        without_b_K=attention_moved_without(trained, "b_K"),
        without_b_Q=attention_moved_without(trained, "b_Q"),
        control_without_b_Q=attention_moved_without(subjects.control, "b_Q"),
        key_bias_ratio=(size["b_K"] / size["b_Q"]).item(),
    )


def four_term_error(device: torch.device) -> float:
    """Return the relative error of the four terms' sum for random matrices of the size of one head of BERT BASE."""
    g = torch.Generator().manual_seed(0)
    X, W_Q, W_K, b_Q, b_K = (
        torch.randn(*shape, generator=g, dtype=torch.float64).to(device)
        for shape in ((512, 768), (1, 768, 64), (1, 768, 64), (1, 64), (1, 64))
    )
    unread = {"W_V": W_K, "b_V": b_K, "W_O": W_K.mT.contiguous(), "b_O": X[0]}
    head = AttentionLayer(W_Q=W_Q, W_K=W_K, b_Q=b_Q, b_K=b_K, **unread)
    scores = compute_scores(X, head)
    return ((score_terms(X, head).total() - scores).norm() / scores.norm()).item()


def attention_moved_without(o: Observed, name: str) -> list[Interval]:
    """Return the share of a row's attention that moves without one of the biases, by layer."""
    return [
        interval(
            [distance.attention_moved(s[i], layer, instead=symmetry.without(layer, name)).mean() for s in o.states]
        )
        for i, layer in enumerate(o.attention)
    ]
