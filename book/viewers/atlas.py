"""What the atlas of heads shows at first, and on paper: all heads of MiniLM on one sentence."""

import numpy as np
from matplotlib.figure import Figure

from analysis.maps.gates import GATES
from analysis.plotting import style
from book.publish.records import Record

START = {"model": "minilm", "sentence": 0, "layer": 2, "head": 9, "colours": [style.GATES[gate] for gate in GATES]}


@style.in_style
def draw(record: Record) -> Figure:
    """Draw the map of every head of MiniLM on the first sentence, a row per layer, on the scale of a root."""
    roots = record.array("minilm_weights")[0].astype(float) / 255
    layers, heads = roots.shape[:2]
    n = int((roots[0, 0].sum(-1) > 0).sum())
    sheet = np.full((layers * (n + 1) - 1, heads * (n + 1) - 1), np.nan)
    for layer in range(layers):
        for head in range(heads):
            row, column = layer * (n + 1), head * (n + 1)
            sheet[row : row + n, column : column + n] = roots[layer, head, :n, :n]
    fig, [[panel]] = style.panels(None, 1, 1, size="tall")
    shown = panel.imshow(sheet, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    panel.set_xticks(np.arange(heads) * (n + 1) + n / 2, range(heads))
    panel.set_yticks(np.arange(layers) * (n + 1) + n / 2, range(layers))
    panel.set(xlabel="head", ylabel="layer")
    fig.colorbar(shown, ax=panel, label="root of the weight", shrink=0.6, aspect=30, pad=0.02)
    return fig
