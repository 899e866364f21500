"""The form M = W_Q W_K^T: its eigenvalues, its rank, and how much of it is antisymmetric."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from analysis.core.attention_layer import AttentionLayer
from analysis.matrices import spectra, symmetry
from book.studies.bert_similarity.networks import DrawnHead, Models


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
