"""The picture of the atlas for paper. Arrays in, a Figure out."""

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style


def overview(weights: np.ndarray) -> Figure:
    """Draw every head's map, ``(layer, head, query, key)``, a row per layer, on the scale of a root."""
    layers, heads, n = weights.shape[:3]
    sheet = np.full((layers * (n + 1) - 1, heads * (n + 1) - 1), np.nan)
    for layer in range(layers):
        for head in range(heads):
            row, column = layer * (n + 1), head * (n + 1)
            sheet[row : row + n, column : column + n] = np.sqrt(weights[layer, head])
    fig, ax = style.new(size="tall")
    shown = ax.imshow(sheet, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    ax.set_xticks(np.arange(heads) * (n + 1) + n / 2, range(heads))
    ax.set_yticks(np.arange(layers) * (n + 1) + n / 2, range(layers))
    ax.set(xlabel="head", ylabel="layer")
    fig.colorbar(shown, ax=ax, label="root of the weight", shrink=0.6, aspect=30, pad=0.02)
    return fig
