"""The picture of the first page for paper, and for browsers without scripts. Arrays in, a Figure out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style


def sentence(parts: Mapping[str, np.ndarray], weights: np.ndarray) -> Figure:
    """Draw one head's scores as the sum of their three parts, on one scale, and the weights that they lead to."""
    fig, axes = style.new(1, 5, size="page", sharex=True, sharey=True)
    maps = {"score": sum(parts.values()), **parts}
    norm = style.centred(np.stack(list(maps.values())))
    for ax, (name, part), sign in zip(axes, maps.items(), ("", "= ", "+ ", "+ "), strict=False):
        shown = ax.imshow(part, cmap=style.SCORE_CMAP, norm=norm)
        ax.set_title(sign + name, loc="left")
    seen = axes[-1].imshow(weights, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    axes[-1].set_title("→ attention", loc="left")
    axes[0].set_ylabel("query")
    for ax in axes:
        ax.set(xlabel="key", xticks=[], yticks=[])
    fig.colorbar(shown, ax=axes[:-1], label="nats", orientation="horizontal", aspect=40, shrink=0.5)
    fig.colorbar(seen, ax=axes[-1], label="weight", orientation="horizontal", aspect=10)
    return fig
