"""Attention maps: entropy, distance, locality, gates, what their divergence is due to, statistics in one pass."""

from analysis.maps import gates as gates
from analysis.maps.attribution import attribute_divergence as attribute_divergence
from analysis.maps.distance import attention_moved as attention_moved, mean_total_variation as mean_total_variation
from analysis.maps.entropy import (
    entropy_at as entropy_at,
    entropy_of_scores as entropy_of_scores,
    histogram_entropy as histogram_entropy,
    kullback_leibler as kullback_leibler,
    relative_entropy as relative_entropy,
    row_entropy as row_entropy,
)
from analysis.maps.gates import GateReading as GateReading, read_gates as read_gates
from analysis.maps.locality import (
    causal_attention as causal_attention,
    nearest_mass as nearest_mass,
    position_scores as position_scores,
    position_share as position_share,
)
from analysis.maps.shapley_values import drop_one as drop_one, shapley as shapley
from analysis.maps.sinks import Sink as Sink, find_sink as find_sink
from analysis.maps.streaming import MapStatistics as MapStatistics, visit_maps as visit_maps
