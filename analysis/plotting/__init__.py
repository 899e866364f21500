"""Drawing: figure functions take arrays and return a Figure; nothing is computed or shown here."""

from analysis.plotting.attention_maps import draw_gates as draw_gates, draw_readings as draw_readings
from analysis.plotting.equations import draw_equation as draw_equation
from analysis.plotting.heads import draw_heads as draw_heads
from analysis.plotting.heat_maps import draw_maps as draw_maps, draw_scores as draw_scores
