"""The cone of MiniLM's rows beside that of a random network: what the viewer shows at first, and its still picture."""

import numpy as np
from matplotlib.figure import Figure

from analysis.models.controls import NETWORKS
from analysis.plotting import style
from book.publish.records import Record

SHOWN = {"trained": "MiniLM, trained", "random, as large": "random weights as large"}
"""The networks of the still picture, which shows the last layer, and their titles."""
START = {"network": 2, "text": 0, "layer": 0, "row": 3, "look": "angles", "yaw": 30, "pitch": 20}
"""The state of the viewer at first; its network is the one beside the trained one."""


@style.in_style
def draw(record: Record) -> Figure:
    """Draw the unit rows of the first text as seen from the side, each at its true angle with the mean direction.

    The mean direction points up; a dot is left or right of it after its second coordinate, and the sector is the cone
    whose half angle has the resultant length as its cosine.
    """
    rows = record.array("rows")[[NETWORKS.index(name) for name in SHOWN], 0, -1].astype(np.float64)
    figure, [axes] = style.panels(None, 1, len(SHOWN), sharey=True)
    for panel, title, points in zip(axes, SHOWN.values(), rows, strict=True):
        up, resultant = points[:, 0], points[:, 0].mean()
        turn = np.arctan2(points[:, 2], points[:, 1])
        across = np.sqrt(1 - up**2) * np.cos(turn)
        edge = np.linspace(-np.arccos(resultant), np.arccos(resultant))
        panel.fill([0, *np.sin(edge)], [0, *np.cos(edge)], color=style.COLOURS["control"], alpha=0.25)
        inside = up >= resultant
        for mask, colour, label in ((inside, "content", "row inside"), (~inside, "semi_bias", "outside")):
            panel.plot(across[mask], up[mask], "o", color=style.COLOURS[colour], markersize=4, label=label)
        panel.plot([0, 0], [0, resultant], color=style.COLOURS["ink"], linewidth=2.5, label="mean of unit rows")
        panel.set(title=title, aspect="equal", xlim=(-1.05, 1.05), ylim=(-0.3, 1.05), xlabel="second axis")
    axes[0].set(ylabel="along the mean")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
