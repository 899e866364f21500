"""The public API, grouped by task. `__init__.py` reads this list; each package lists its own names."""

# Read a model, or one layer of it
from analysis.models.reading import load as load, Model as Model
from analysis.models.checkpoints import find as find, NotFound as NotFound
from analysis.models import pretrained as pretrained
from analysis.models.controls import make_controls as make_controls
from analysis.data.texts import passages as passages

# Make a layer of plain tensors
from analysis.core.attention_layer import AttentionLayer as AttentionLayer, Mask as Mask, Norm as Norm
from analysis.core.positions import Rotary as Rotary

# What a model computes
from analysis.transformer.attention import (
    attend as attend,
    compute_scores as compute_scores,
    mask_future as mask_future,
    project as project,
    softmax as softmax,
)
from analysis.transformer.layernorm import apply_norm as apply_norm, sigma as sigma
from analysis.transformer.rotary import rotate as rotate
from analysis.transformer.encoder import Switches as Switches, encode as encode, run_layer as run_layer

# A score in its parts
from analysis.decomposition.terms import (
    key_direction as key_direction,
    score_terms as score_terms,
    ScoreTerms as ScoreTerms,
    semi_bias as semi_bias,
)
from analysis.decomposition.rotary_kernel import distance_kernel as distance_kernel
from analysis.decomposition.folding import fold_norm as fold_norm, fold_value_bias as fold_value_bias
from analysis.maps.attribution import attribute_divergence as attribute_divergence
from analysis.maps.locality import (
    causal_attention as causal_attention,
    nearest_mass as nearest_mass,
    position_scores as position_scores,
)

# Circuits of heads: query-key and output-value matrices, patterns and messages
from analysis.surveys.model_circuits import circuits as circuits
from analysis.decomposition.qk_ov import (
    messages as messages,
    ov_matrix as ov_matrix,
    patterns as patterns,
    qk_matrix as qk_matrix,
)
from analysis.transformer.induction_scores import (
    copying_score as copying_score,
    induction_score as induction_score,
    previous_token_score as previous_token_score,
)
from analysis.transformer.induction import build as build_induction_head, required_sharpness as required_sharpness
from analysis.matrices.rank import effective_rank as effective_rank
from analysis.matrices.symmetry import asymmetry as asymmetry, symmetric_signature as symmetric_signature

# Maps of attention
from analysis.maps import gates as gates
from analysis.maps.gates import read_gates as read_gates, GateReading as GateReading
from analysis.maps.entropy import (
    histogram_entropy as histogram_entropy,
    relative_entropy as relative_entropy,
    row_entropy as row_entropy,
)
from analysis.maps.sinks import find_sink as find_sink

# Rows of the residual stream, and statistics
from analysis.representations.anisotropy import cone_index as cone_index, mean_pairwise_cosine as mean_pairwise_cosine
from analysis.representations.rank_collapse import random_collapse as random_collapse, residual as residual
from analysis.statistics.normality import critical_value as critical_value, lilliefors as lilliefors
from analysis.statistics.correlation import rank_correlation as rank_correlation

# A whole model
from analysis.surveys.layer_runs import layer_inputs as layer_inputs, score_parts as score_parts
from analysis.reporting.head_table import census as census
from analysis.reporting.making import report as report
from analysis.reporting.certificate import certify as certify

# Draw
from analysis.plotting.equations import draw_equation as draw_equation
from analysis.plotting.heads import draw_heads as draw_heads
from analysis.plotting.heat_maps import draw_maps as draw_maps, draw_scores as draw_scores
from analysis.plotting.attention_maps import draw_gates as draw_gates, draw_readings as draw_readings

# More of each subject, one level down
from analysis import data as data
from analysis import decomposition as decomposition
from analysis import maps as maps
from analysis import matrices as matrices
from analysis import plotting as plotting
from analysis import representations as representations
from analysis import statistics as statistics
from analysis import transformer as transformer

__version__: str
