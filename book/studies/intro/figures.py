"""The picture of the first page for paper, and for browsers without scripts. Arrays in, a Figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style


def sentence(parts: Mapping[str, np.ndarray], weights: np.ndarray, tokens: Sequence[str]) -> Figure:
    """Draw the three parts of one head's scores on one scale, and the weights that they lead to."""
    fig, axes = style.new(2, 2, size="page", sharex=True, sharey=True)
    *for_parts, last = axes.flat
    norm = style.centred(np.stack([part for name, part in parts.items() if name != "constants"]))
    for ax, (name, part), sign in zip(for_parts, parts.items(), ("", "+ ", "+ "), strict=True):
        shown = ax.imshow(part, cmap=style.SCORE_CMAP, norm=norm)
        ax.set_title(sign + name, loc="left")
    seen = last.imshow(weights, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    last.set_title("attention weights", loc="left")
    for ax in axes.flat:
        ax.set_xticks(range(len(tokens)), tokens, rotation=90)
        ax.set_yticks(range(len(tokens)), tokens)
    fig.colorbar(shown, ax=axes[0, :], label="nats", aspect=20)
    fig.colorbar(seen, ax=axes[1, :], label="weight", aspect=20)
    return fig
