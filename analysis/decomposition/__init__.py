"""The same computations rewritten exactly: parts of scores, merged matrices, folded biases."""

from analysis.decomposition.bilinear_form import bordered as bordered, homogeneous as homogeneous
from analysis.decomposition.block_mixing import additive_share as additive_share, block_coupling as block_coupling
from analysis.decomposition.folding import fold_norm as fold_norm, fold_value_bias as fold_value_bias
from analysis.decomposition.qk_ov import (
    attend_by_patterns as attend_by_patterns,
    change_gauge as change_gauge,
    messages as messages,
    ov_matrix as ov_matrix,
    patterns as patterns,
    qk_matrix as qk_matrix,
)
from analysis.decomposition.rotary_channels import (
    drop_cancelling_bias as drop_cancelling_bias,
    split_channels as split_channels,
)
from analysis.decomposition.rotary_kernel import distance_kernel as distance_kernel
from analysis.decomposition.terms import (
    ScoreTerms as ScoreTerms,
    SixTerms as SixTerms,
    key_direction as key_direction,
    score_terms as score_terms,
    semi_bias as semi_bias,
    six_terms as six_terms,
)
from analysis.decomposition.uniform import (
    cumulative_means as cumulative_means,
    mean_layer as mean_layer,
    uniform_causal as uniform_causal,
)
