"""What the lengths of rows do to scores and to attention."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from analysis.maps import distance
from analysis.matrices import symmetry
from analysis.transformer.attention import compute_scores
from book.studies.bert_similarity.networks import Models
from book.studies.shared.averages import mean


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
