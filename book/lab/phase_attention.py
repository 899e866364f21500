"""Do heads keep words of one phase apart? A word's phase is by how many bases deletions before it have shifted it.

The phase is modulo the stride (:func:`book.lab.dna.sites.token_phases`).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from book.lab import classifier_survey
from book.lab.dna import sites
from book.lab.dna.fasta import Gene
from book.lab.training.dna_classifier import Data

WINDOW = 8
"""Over so many words the rows beside a place are averaged."""


def kept_within(attention: Float[Tensor, "*head query key"], groups: Int[np.ndarray, " position"]) -> Tensor:
    """Return the share of each head's attention that stays within a group of positions.

    Where attention is uniform it is the share of pairs that are of one group.

    >>> kept_within(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]]), np.array([0, 0, 5]))
    tensor([0.6667])
    """
    same = torch.from_numpy(groups[:, None] == groups).to(attention)
    return (attention * same).sum((-2, -1)) / attention.sum((-2, -1))


def turn_at(
    attention: Float[Tensor, "head query key"], places: Int[np.ndarray, " place"], window: int = WINDOW
) -> Float[Tensor, " head"]:
    """Return how far the rows of maps turn at some places, over how far they turn elsewhere.

    A turn is the total variation between the mean of so many rows before a place and the mean of as many from it on.
    Elsewhere is further than two windows from all places.

    >>> blocks = torch.eye(2).repeat_interleave(4, 0).repeat_interleave(4, 1)[None] / 4
    >>> drifting = 0.9 * blocks + 0.1 * torch.eye(8)
    >>> turn_at(drifting, np.array([4]), window=1).round().tolist()
    [10.0]
    """
    n = attention.shape[-1]
    ends = torch.cat([torch.zeros_like(attention[:, :1]), attention.cumsum(1)], 1)
    at = torch.arange(window, n - window + 1)
    before, after = ends[:, at] - ends[:, at - window], ends[:, at + window] - ends[:, at]
    turns = (after - before).abs().sum(-1) / (2 * window)
    on = torch.from_numpy(np.isin(at.numpy(), places))
    elsewhere = torch.from_numpy(np.abs(at.numpy()[:, None] - places).min(1, initial=n) > 2 * window)
    return turns[:, on].mean(1) / turns[:, elsewhere].mean(1)


@torch.no_grad()
def survey_turns(
    model: nn.Module, data: Data, genes: Sequence[Gene], window: int = WINDOW
) -> Float[np.ndarray, "sequence layer"]:
    """Return how far rows turn where the phase changes, means over heads, for the sequences in which it does."""
    found = []
    for gene in genes:
        phase = sites.token_phases(gene)
        passed, keep = classifier_survey.pass_all(model, data.encode([gene]))
        n = int(keep.sum()) - 1
        if len(borders := np.flatnonzero(np.diff(phase[:n])) + 1):
            maps = [layer.attention[:, 1 : n + 1, 1 : n + 1] for layer in passed]
            found.append([float(turn_at(each, borders, window).mean()) for each in maps])
    return np.array(found, np.float32)


@torch.no_grad()
def survey(model: nn.Module, data: Data, genes: Sequence[Gene]) -> dict[str, np.ndarray]:
    """Measure sequences, [CLS] left out of rows and columns.

    Returns
    -------
    dict
        ``within`` ``(sequence, layer, head)``, what :func:`kept_within` returns; ``pairs`` ``(sequence,)``, the share
        of pairs of words with one phase, which is 1 where no deletion changes the phase.
    """
    within, pairs = [], []
    for gene in genes:
        phase = sites.token_phases(gene)
        passed, keep = classifier_survey.pass_all(model, data.encode([gene]))
        maps = torch.stack([s.attention[:, keep][:, :, keep][:, 1:, 1:] for s in passed])
        within.append(kept_within(maps, phase[: maps.shape[-1]]).cpu().numpy())
        pairs.append(float((phase[:, None] == phase).mean()))
    return {"within": np.array(within, np.float32), "pairs": np.array(pairs, np.float32)}
