"""Do heads keep words of one phase apart? What a map keeps within the groups that deletions make of a sequence's words.

A word's phase is by how many bases the deletions before it have shifted it, modulo the stride (``sites.token_phases``).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from book.lab.dna import sites
from book.lab.dna.fasta import Gene
from book.lab.training.dna_classifier import Data
from book.studies.shared import variant_measures


def kept_within(attention: Float[Tensor, "*head query key"], groups: Int[np.ndarray, " position"]) -> Tensor:
    """Return the share of each head's attention that stays within a group of positions.

    Where attention is uniform it is the share of pairs that are of one group.

    Raises
    ------
    ValueError
        If there is not one group a position.

    Examples
    --------
    >>> kept_within(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]]), np.array([0, 0, 5]))
    tensor([0.6667])
    """
    if attention.shape[-2:] != (len(groups), len(groups)):
        raise ValueError(f"groups must be {attention.shape[-1]}, one a position, got {len(groups)}")
    same = torch.from_numpy(groups[:, None] == groups).to(attention)
    return (attention * same).sum((-2, -1)) / attention.sum((-2, -1))


@torch.no_grad()
def survey(model: torch.nn.Module, data: Data, genes: Sequence[Gene]) -> dict[str, np.ndarray]:
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
        passed, keep = variant_measures.pass_all(model, data.encode([gene]))
        maps = torch.stack([s.attention[:, keep][:, :, keep][:, 1:, 1:] for s in passed])
        within.append(kept_within(maps, phase[: maps.shape[-1]]).cpu().numpy())
        pairs.append(float((phase[:, None] == phase).mean()))
    return {"within": np.array(within, np.float32), "pairs": np.array(pairs, np.float32)}
