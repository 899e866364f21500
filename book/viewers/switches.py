"""The spread of MiniLM's vectors and of its controls' after the last layer, whole and without one part."""

import numpy as np
from matplotlib.figure import Figure

from analysis.models.controls import LARGE, LEVELS, PERMUTED, RANDOM
from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_points, share_legend
from book.publish.records import Record

START = {"skip": 1, "mlp": 1, "norm": 1}
"""What the viewer shows at first: the whole model."""
SHOWN = {
    "whole": (1, 1, 1),
    "without MLPs": (1, 0, 1),
    "without LayerNorms": (1, 1, 0),
    "without skip connections": (0, 1, 1),
}
"""The settings of the picture: skip connections, MLP, LayerNorm."""
NAMES = {
    "trained": "MiniLM",
    RANDOM: "small random weights",
    LARGE: "random weights as large as MiniLM's",
    PERMUTED: "MiniLM's weights, shuffled",
}
"""What the story and the viewer call the networks."""


@style.in_style
def draw(record: Record) -> Figure:
    """Draw logarithms to base 10 of the spread, a row for each part that is missing."""
    trained = np.array([record.array("trained")[place][-1] for place in SHOWN.values()])
    controls = {
        level: np.stack([values[:, *place, -1] for place in SHOWN.values()], 1)
        for level, values in zip(LEVELS, record.array("controls"), strict=True)
    }
    figure, panel = style.new(size="wide")
    draw_points(panel, Ladder(trained, controls), list(SHOWN))
    for line in panel.lines:
        line.set_label(NAMES[line.get_label()])
    powers = range(-12, 1, 4)
    labels = [f"$10^{{{power}}}$" if power else "1" for power in powers]
    panel.set(xlabel="spread after the last layer", xticks=powers, xticklabels=labels)
    share_legend(figure, [panel])
    return figure
