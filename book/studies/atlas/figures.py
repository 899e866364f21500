"""The picture of the atlas for paper. Arrays in, a Figure out."""

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style


@style.in_style
def overview(weights: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw every head's map, ``(layer, head, query, key)``, a row per layer, on the scale of a root."""
    layers, heads, n = weights.shape[:3]
    sheet = np.full((layers * (n + 1) - 1, heads * (n + 1) - 1), np.nan)
    for layer in range(layers):
        for head in range(heads):
            row, column = layer * (n + 1), head * (n + 1)
            sheet[row : row + n, column : column + n] = np.sqrt(weights[layer, head])
    fig, [[panel]] = style.panels(ax, 1, 1, size="tall")
    shown = panel.imshow(sheet, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    panel.set_xticks(np.arange(heads) * (n + 1) + n / 2, range(heads))
    panel.set_yticks(np.arange(layers) * (n + 1) + n / 2, range(layers))
    panel.set(xlabel="head", ylabel="layer")
    fig.colorbar(shown, ax=panel, label="root of the weight", shrink=0.6, aspect=30, pad=0.02)
    return fig
