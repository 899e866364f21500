"""The public API, grouped by task. `__init__.py` reads this list."""

# Read a model, or one layer of it
from analysis.models.reading import load as load, Model as Model
from analysis.models.checkpoints import find as find, NotFound as NotFound
from analysis.models import pretrained as pretrained
from analysis.models.controls import (
    make_controls as make_controls,
    permute_entries as permute_entries,
    scale_matrices as scale_matrices,
)
from analysis.models.key_bias import key_bias_effect as key_bias_effect
from analysis.data.texts import corpus as corpus, passages as passages

# Make a layer of plain tensors
from analysis.core.attention_layer import (
    AttentionLayer as AttentionLayer,
    Mask as Mask,
    Norm as Norm,
    QueryKeyNorm as QueryKeyNorm,
)
from analysis.core.positions import Alibi as Alibi, RelativeBuckets as RelativeBuckets, Rotary as Rotary
from analysis.core.weights import EncoderLayer as EncoderLayer, MlpWeights as MlpWeights

# What a model computes
from analysis.transformer.attention import (
    attend as attend,
    compute_scores as compute_scores,
    mask_future as mask_future,
    project as project,
    queries_and_keys as queries_and_keys,
    softmax as softmax,
    visible_keys as visible_keys,
)
from analysis.transformer.layernorm import (
    apply_norm as apply_norm,
    centre as centre,
    jacobian as jacobian,
    sigma as sigma,
)
from analysis.transformer.layernorm_scale import inverse_sigma as inverse_sigma
from analysis.transformer.mlp import activation_mask as activation_mask, apply_mlp as apply_mlp
from analysis.transformer.encoder import (
    Switches as Switches,
    encode as encode,
    random_layers as random_layers,
    run_layer as run_layer,
)
from analysis.transformer.positional_encodings import (
    rotation as rotation,
    sinusoidal_positions as sinusoidal_positions,
    toeplitz_defect as toeplitz_defect,
)
from analysis.transformer.rotary import rotate as rotate
from analysis.transformer.rotary_scaling import (
    interpolate_positions as interpolate_positions,
    ntk_aware as ntk_aware,
    rotary_frequencies as rotary_frequencies,
    yarn as yarn,
)
from analysis.transformer.position_scores import alibi_slopes as alibi_slopes, bucket_scores as bucket_scores

# A score in its parts
from analysis.decomposition.terms import (
    key_direction as key_direction,
    score_terms as score_terms,
    ScoreTerms as ScoreTerms,
    semi_bias as semi_bias,
    six_terms as six_terms,
    SixTerms as SixTerms,
)
from analysis.decomposition.bilinear_form import bordered as bordered, homogeneous as homogeneous
from analysis.decomposition.rotary_kernel import distance_kernel as distance_kernel
from analysis.decomposition.rotary_channels import (
    drop_cancelling_bias as drop_cancelling_bias,
    split_channels as split_channels,
)
from analysis.decomposition.folding import fold_norm as fold_norm, fold_value_bias as fold_value_bias
from analysis.maps.attribution import attribute_divergence as attribute_divergence
from analysis.maps.distance import attention_moved as attention_moved, mean_total_variation as mean_total_variation
from analysis.maps.locality import (
    causal_attention as causal_attention,
    nearest_mass as nearest_mass,
    position_scores as position_scores,
    position_share as position_share,
    previous_token_share as previous_token_share,
)

# Circuits: query-key and output-value matrices, patterns and messages
from analysis.decomposition.qk_ov import (
    attend_by_patterns as attend_by_patterns,
    change_gauge as change_gauge,
    messages as messages,
    ov_matrix as ov_matrix,
    patterns as patterns,
    qk_matrix as qk_matrix,
)
from analysis.decomposition.uniform import (
    cumulative_means as cumulative_means,
    mean_layer as mean_layer,
    uniform_causal as uniform_causal,
)
from analysis.decomposition.block_mixing import additive_share as additive_share, block_coupling as block_coupling
from analysis.transformer.induction import build as build_induction_head, required_sharpness as required_sharpness
from analysis.transformer.induction_scores import copying as copying, prefix_matching as prefix_matching
from analysis.transformer.attention_only import composition_scores as composition_scores, k_composition as k_composition

# Matrices of weights
from analysis.surveys.model_circuits import circuits as circuits
from analysis.matrices.spectra import product_singular_values as product_singular_values, spectral_norm as spectral_norm
from analysis.matrices.rank import (
    centred_rank as centred_rank,
    effective_rank as effective_rank,
    numerical_rank as numerical_rank,
    ranks_through_norm as ranks_through_norm,
    stable_rank as stable_rank,
)
from analysis.matrices.symmetry import asymmetry as asymmetry, symmetric_signature as symmetric_signature

# Maps of attention
from analysis.maps import gates as gates
from analysis.maps.gates import read_gates as read_gates, GateReading as GateReading
from analysis.maps.entropy import (
    entropy_at as entropy_at,
    entropy_of_scores as entropy_of_scores,
    histogram_entropy as histogram_entropy,
    kullback_leibler as kullback_leibler,
    relative_entropy as relative_entropy,
    row_entropy as row_entropy,
)
from analysis.maps.sinks import find_sink as find_sink, Sink as Sink
from analysis.maps.streaming import MapStatistics as MapStatistics, visit_maps as visit_maps

# Rows of the residual stream
from analysis.representations.anisotropy import (
    alignment_ratio as alignment_ratio,
    cone_index as cone_index,
    head_output_spectrum as head_output_spectrum,
    mean_pairwise_cosine as mean_pairwise_cosine,
    resultant_length as resultant_length,
)
from analysis.statistics.normality import (
    critical_value as critical_value,
    excess_kurtosis as excess_kurtosis,
    lilliefors as lilliefors,
    outlier_dimensions as outlier_dimensions,
    p_value as p_value,
)
from analysis.representations.rank_collapse import (
    random_collapse as random_collapse,
    residual as residual,
    scatter_around_mean as scatter_around_mean,
    trace_residual as trace_residual,
)

# Intervals and correlations
from analysis.statistics.intervals import (
    grouped_share_interval as grouped_share_interval,
    Interval as Interval,
    mean_interval as mean_interval,
    share_interval as share_interval,
)
from analysis.statistics.correlation import (
    partial_rank_correlation as partial_rank_correlation,
    rank_correlation as rank_correlation,
)

# A whole model
from analysis.surveys.layer_runs import layer_inputs as layer_inputs, score_parts as score_parts
from analysis.reporting.head_table import census as census
from analysis.reporting.making import report as report

# Draw
from analysis.plotting.equations import draw_equation as draw_equation
from analysis.plotting.heads import draw_heads as draw_heads
from analysis.plotting.heat_maps import draw_maps as draw_maps, draw_scores as draw_scores
from analysis.plotting.attention_maps import draw_gates as draw_gates, draw_readings as draw_readings
from analysis.plotting.random_draws import draw_beside_random as draw_beside_random

__version__: str
