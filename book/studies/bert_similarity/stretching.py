"""How far W_Q, W_K and W_V can stretch a row, and how far the rows of texts are stretched."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.matrices import spectra
from analysis.statistics.intervals import Interval
from book.lab.mathematics import stretching
from book.studies.bert_similarity.networks import DrawnHead, Models
from book.studies.shared.averages import interval, mean


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
