"""The code's heads beside the model's: largest singular values of the weights, and of what the heads write."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import pearsonr, spearmanr

from analysis.matrices.spectra import spectral_norm
from analysis.models.reading import load
from book.lab.mathematics import stretching
from book.publish.records import Record, Result
from book.studies.shared import released_code as code


class Slices(NamedTuple):
    """Largest singular values of the heads' matrices and of the code's columns, and how they go together by map."""

    heads: Float[np.ndarray, "map layer head"]
    columns: Float[np.ndarray, "map layer head"]
    correlation: Float[np.ndarray, " map"]
    rank_correlation: Float[np.ndarray, " map"]


def compare_slices(model: torch.nn.Module) -> Slices:
    """Take the largest singular values of every head's matrices and of the code's columns."""
    layers = [layer.attention for layer in load(model).encoder_layers()]
    heads = stretching.over_heads(spectral_norm, layers).cpu().numpy()
    columns = stretching.over_heads(spectral_norm, [code.with_stored_blocks(each) for each in layers]).cpu().numpy()
    pairs = [(own.ravel(), column.ravel()) for own, column in zip(heads, columns)]
    return Slices(
        heads,
        columns,
        np.array([pearsonr(*pair).statistic for pair in pairs]),
        np.array([spearmanr(*pair).statistic for pair in pairs]),
    )


def correlate_outputs(record: Record | Result, network: str) -> float:
    """Return the rank correlation over all heads of the largest singular values of S V: the model's and the code's."""
    own, coded = (record.array(f"{network}/{kind}").mean(0).ravel() for kind in ("largest", "code_largest"))
    return float(spearmanr(own, coded).statistic)
