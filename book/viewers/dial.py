"""The dial: one head of MiniLM at several dials, from the record of the heads on one sentence."""

import json

import numpy as np
import torch
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.transformer.attention import softmax
from book.publish.records import Record, Result

MODEL, LAYER, HEAD = "minilm", 0, 5
START = {"model": MODEL, "layer": LAYER, "head": HEAD, "query": 8, "key": 8, "t": 1.0}
DIALS = 0.0, 0.5, 1.0, 4.0


@style.in_style
def draw(record: Record | Result) -> Figure:
    """Draw the head's attention, a panel per dial in two rows, on the scale of a root."""
    scores = torch.from_numpy(record.array(f"{MODEL}_scores")[0, LAYER, HEAD].astype(np.float64))
    tokens = json.loads(record[f"{MODEL}_tokens"])
    fig, axes = style.new(2, 2, size="square", sharex=True, sharey=True)
    for panel, dial in zip(axes.flat, DIALS, strict=True):
        weights = softmax(dial * scores).sqrt().numpy()
        shown = panel.imshow(weights, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
        panel.set(title=f"t = {dial:g}", xticks=[], yticks=range(len(tokens)), yticklabels=tokens)
    for panel in axes[-1]:
        panel.set(xlabel="key")
    bar = fig.colorbar(shown, ax=axes, label="weight", ticks=np.sqrt([0, 0.1, 0.5, 1]), pad=0.01, shrink=0.7)
    bar.set_ticklabels(["0", "0.1", "0.5", "1"])
    return style.many_marks(fig)
