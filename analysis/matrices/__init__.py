"""Products of weights as matrices: singular values, rank, symmetry, how far rows are stretched."""

from analysis.matrices.rank import (
    effective_rank as effective_rank,
    numerical_rank as numerical_rank,
    ranks_through_norm as ranks_through_norm,
    stable_rank as stable_rank,
)
from analysis.matrices.spectra import product_singular_values as product_singular_values, spectral_norm as spectral_norm
from analysis.matrices.symmetry import asymmetry as asymmetry, symmetric_signature as symmetric_signature
