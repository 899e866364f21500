r"""The signatures of section 5 of "The geometry of BERT", of one text in any BERT: arrays of figures 8 to 13, table 1.

What belongs here: what is measured on the layers' activations for a text, with padding rows in or out. What does not:
the measures (:mod:`analysis.statistics.normality`, :mod:`analysis.representations.anisotropy`,
:mod:`analysis.maps.entropy`), running a model (:mod:`analysis.models`), averaging over texts.

To measure a model, trained or control, on a padded sequence::

    activations = [run_layer(x, layer, keep=mask) for x, layer in zip(states, layers)]
    measure(activations, mask)                # rows of padding left out: the same as without padding
    measure(activations, mask, padding=True)  # rows of padding counted, as a sum over all 512 rows does
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.checks import check_detached
from analysis.maps import entropy
from analysis.representations import anisotropy
from analysis.statistics import normality
from analysis.transformer.activations import LayerActivations, check_keep
from analysis.transformer.layernorm import normalise

EXTREME = 4.0
"""A coordinate of a sum is extreme when it lies further out than this many deviations."""


def select_rows(
    activations: Sequence[LayerActivations], keep: Bool[Tensor, " position"] | None = None, padding: bool = False
) -> tuple[list[LayerActivations], int]:
    """Return the activations of the rows that count, and how many keys there are to attend to."""
    if not activations:
        raise ValueError("activations is empty: there is no layer to measure")
    if keep is None:
        return list(activations), len(activations[0].x)
    check_keep(keep, activations[0].x)
    return (list(activations) if padding else [layer.only(keep) for layer in activations]), int(keep.sum())


def row_statistics(
    activations: Sequence[LayerActivations], keep: Bool[Tensor, " position"] | None = None, padding: bool = False
) -> dict[str, Float[Tensor, "layer row"]]:
    """Return figure 8: the Lilliefors statistic of each row after the first LayerNorm, ``bare`` without gain and bias.

    Arguments as for `measure`; "The geometry of BERT", section 5.1.
    """
    check_detached("activations", activations)
    activations, _ = select_rows(activations, keep, padding)
    return {
        "first": normality.lilliefors(torch.stack([s.first for s in activations])),
        "bare": normality.lilliefors(torch.stack([normalise(s.before_first) for s in activations])),
    }


def sums(
    activations: Sequence[LayerActivations], keep: Bool[Tensor, " position"] | None = None, padding: bool = False
) -> dict[str, Tensor]:
    """Return figures 9 and 13: the sum of the rows after the second LayerNorm, and the sum of these over all layers.

    ``second`` (layer model) and ``total`` (model) as BERT writes the rows; ``bare``, ``total_bare`` without gain and
    bias; ``unit`` of rows of length 1. Arguments as for `measure`; "The geometry of BERT", section 5.
    """
    activations, _ = select_rows(activations, keep, padding)
    second = torch.stack([s.second for s in activations])
    bare = torch.stack([normalise(s.before_second) for s in activations])
    return {
        "second": second.sum(1),
        "bare": bare.sum(1),
        "unit": anisotropy.unit(second).sum(1),
        "total": second.sum((0, 1)),
        "total_bare": bare.sum((0, 1)),
    }


def measure(
    activations: Sequence[LayerActivations], keep: Bool[Tensor, " position"] | None = None, *, padding: bool = False
) -> dict[str, np.ndarray]:
    r"""Measure one text in all layers of a model: the numbers of figures 8 to 13 and table 1.

    Parameters
    ----------
    activations
        What each layer computed (:func:`analysis.transformer.encoder.run_layer`), the first layer first, one text.
    keep
        Which positions are tokens; by default all. `run_layer` must have read the same.
    padding
        Whether rows of padding are counted in. They attend and are written like any row, but no row attends to them.

    Returns
    -------
    dict
        float64 arrays. By layer: ``first_failing``, ``bare_failing`` (shares of rows that fail at 5 %, figure 8);
        ``D_sum``, ``D_sum_bare``, ``D_sum_unit`` and, less its extreme coordinates, of which there are ``dropped``,
        ``D_sum_kept`` (figure 9, table 1); ``cone``, ``cone_bare``, ``ratio``, ``resultant``, ``resultant_bare``,
        ``cosine``, ``cosine_bare`` (figure 10). By layer and head: ``largest``, ``stable_rank`` (figure 11),
        ``entropy`` relative to ln(keys), ``histogram`` (figure 12), ``sink`` (the mass on the first and the last key).
        Of shape (1,): ``D_total``, ``D_total_bare``, ``mean_total``, ``mean_total_bare`` over the deviation (figure
        13), and ``rows``, how many were counted. ``bare`` is without the LayerNorm's gain and bias.

    "The geometry of BERT", section 5, its table 1 and figures 8 to 13.

    >>> from analysis.transformer.encoder import random_layers, run_layer
    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = random_layers(1, 2, 8, generator=generator)[0]
    >>> profile = measure([run_layer(torch.randn(5, 8, generator=generator).double(),
    ...                              layer)])
    >>> profile["D_sum"].shape, profile["entropy"].shape, profile["rows"].tolist()
    ((1,), (1, 2), [5.0])
    """
    statistics, vectors = row_statistics(activations, keep, padding), sums(activations, keep, padding)
    activations, keys = select_rows(activations, keep, padding)
    last = int(keep.nonzero()[-1, 0]) if keep is not None and padding else -1
    second = torch.stack([s.second for s in activations])
    bare = torch.stack([normalise(s.before_second) for s in activations])
    critical = normality.critical_value(second.shape[-1])
    extremes = [normality.outlier_dimensions(row[None], EXTREME) for row in vectors["second"]]
    ordinary = [normality.without(row, extreme) for row, extreme in zip(vectors["second"], extremes)]
    spectra = [anisotropy.head_output_spectrum(s.attention, s.values) for s in activations]
    profile = {
        "rows": torch.tensor([float(second.shape[1])]),
        **{f"{kind}_failing": (d > critical).double().mean(-1) for kind, d in statistics.items()},
        "D_sum": normality.lilliefors(vectors["second"]),
        "D_sum_bare": normality.lilliefors(vectors["bare"]),
        "D_sum_unit": normality.lilliefors(vectors["unit"]),
        "D_sum_kept": torch.stack([normality.lilliefors(row) for row in ordinary]),
        "dropped": torch.tensor([len(extreme) for extreme in extremes]),
        **{f"D_{name}": normality.lilliefors(vectors[name])[None] for name in ("total", "total_bare")},
        **{f"mean_{name}": (vectors[name].mean() / vectors[name].std())[None] for name in ("total", "total_bare")},
        "cone": anisotropy.cone_index(second),
        "cone_bare": anisotropy.cone_index(bare),
        "ratio": anisotropy.alignment_ratio(second),
        "resultant": anisotropy.resultant_length(second),
        "resultant_bare": anisotropy.resultant_length(bare),
        "cosine": anisotropy.mean_pairwise_cosine(second),
        "cosine_bare": anisotropy.mean_pairwise_cosine(bare),
        "largest": torch.stack([s.largest for s in spectra]),
        "stable_rank": torch.stack([s.stable_rank for s in spectra]),
        "entropy": torch.stack([entropy.relative_entropy(s.attention, keys).mean(-1) for s in activations]),
        "histogram": torch.stack([entropy.histogram_entropy(s.attention) for s in activations]),
        "sink": torch.stack([s.attention[..., [0, last]].sum(-1).mean(-1) for s in activations]),
    }
    return {name: value.double().cpu().numpy() for name, value in profile.items()}


def singular_values(
    activations: Sequence[LayerActivations], keep: Bool[Tensor, " position"] | None = None, padding: bool = False
) -> Float[Tensor, "layer head channel"]:
    """Return figure 11: all singular values of each head's output ``S V``, largest first, over the root of its rows.

    Arguments as for `measure`.
    """
    activations, _ = select_rows(activations, keep, padding)
    spectra = [anisotropy.head_output_spectrum(s.attention, s.values) for s in activations]
    return torch.stack([spectrum.singular_values for spectrum in spectra]) / len(activations[0].x) ** 0.5


def outstanding(by_layer: Sequence[Float[Tensor, "position model"]], lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """Find the coordinates that stand out in the rows of many texts, layer by layer, and measure without them.

    Parameters
    ----------
    by_layer
        The rows of all texts, one after another, a matrix per layer.
    lengths
        How many rows each text has.

    Returns
    -------
    dict
        ``outliers`` (layer): how many stand out, which are the largest in ``size`` (layer coordinate), the root mean
        square over standardised rows; ``kurtosis`` and
        ``kurtosis_kept`` (layer): mean over rows with and without them; ``failing_kept`` (text layer): the share of
        rows that fails without them ("The geometry of BERT", section 5.1).
    """
    check_detached("by_layer", by_layer)
    profile: dict[str, list] = {name: [] for name in ("size", "kurtosis", "kurtosis_kept", "outliers")}
    failing = []
    for rows in by_layer:
        outliers = normality.outlier_dimensions(rows)
        less = normality.without(rows, outliers)
        failed = normality.lilliefors(less) > normality.critical_value(less.shape[-1])
        failing.append([float(part.double().mean()) for part in failed.split(list(lengths))])
        profile["size"].append(normality.standardise(rows).square().mean(0).sqrt().cpu().numpy())  # what they go by
        profile["kurtosis"].append(float(normality.excess_kurtosis(rows).mean()))
        profile["kurtosis_kept"].append(float(normality.excess_kurtosis(less).mean()))
        profile["outliers"].append(len(outliers))
    return {"failing_kept": np.array(failing).T, **{name: np.array(values) for name, values in profile.items()}}
