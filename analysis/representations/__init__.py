"""Rows of the residual stream: anisotropy, rank collapse, layer by layer."""

from analysis.representations.anisotropy import (
    alignment_ratio as alignment_ratio,
    cone_index as cone_index,
    head_output_spectrum as head_output_spectrum,
    mean_pairwise_cosine as mean_pairwise_cosine,
    resultant_length as resultant_length,
)
from analysis.representations.rank_collapse import (
    random_collapse as random_collapse,
    residual as residual,
    scatter_around_mean as scatter_around_mean,
    trace_residual as trace_residual,
)
