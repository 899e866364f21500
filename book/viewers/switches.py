"""The residual of MiniLM and its controls under every set of parts, after the last layer."""

import numpy as np
from matplotlib.figure import Figure

from analysis.models.controls import LEVELS
from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_points, share_legend
from book.experiments.bert_rank_switches import MLPS, settings
from book.publish.records import Record

START = {"of": "model", "skip": 1, "mlp": MLPS.index("GELU"), "norm": 1, "gain": 1}
"""What the viewer shows at first: the whole model."""


@style.in_style
def draw(record: Record) -> Figure:
    """Draw logarithms to base 10 of the residual, a row for each setting with the model's own gains."""
    rows = [(place, switches) for place, switches in settings() if place[-1]][::-1]  # the most parts first
    trained = np.array([record.array("trained")[place][-1] for place, _ in rows])
    controls = {
        level: np.stack([values[:, *place, -1] for place, _ in rows], 1)
        for level, values in zip(LEVELS, record.array("controls"), strict=True)
    }
    figure, panel = style.new(size="tall")
    draw_points(panel, Ladder(trained, controls), [s.describe().replace("attention + ", "") for _, s in rows])
    panel.set(xlabel="log10 of the residual after the last layer")
    share_legend(figure, [panel])
    return figure
