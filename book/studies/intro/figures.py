"""The picture of the first page for paper, and for browsers without scripts. Arrays in, a Figure out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style


@style.in_style
def sentence(parts: Mapping[str, np.ndarray], weights: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw one head's scores as the sum of their three parts, on one scale, and the weights that they lead to."""
    fig, [axes] = style.panels(ax, 1, 5, size="page", sharex=True, sharey=True)
    maps = {"score": sum(parts.values()), **parts}
    norm = style.centred(np.stack(list(maps.values())))
    for panel, (name, part), sign in zip(axes, maps.items(), ("", "= ", "+ ", "+ "), strict=False):
        shown = panel.imshow(part, cmap=style.SCORE_CMAP, norm=norm)
        panel.set_title(sign + name, loc="left")
    seen = axes[-1].imshow(weights, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    axes[-1].set_title("→ attention", loc="left")
    axes[0].set_ylabel("query")
    for panel in axes:
        panel.set(xlabel="key", xticks=[], yticks=[])
    fig.colorbar(shown, ax=axes[:-1], label="nats", orientation="horizontal", aspect=40, shrink=0.5)
    fig.colorbar(seen, ax=axes[-1], label="weight", orientation="horizontal", aspect=10)
    return fig
