"""The score mixer: one query of GPT-2's first layer under ``T^pp`` alone and under ``T^p + T^pp``."""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.transformer.attention import softmax
from book.publish.records import Record, Result

HEAD, QUERY = 0, 700  # a head like the median one, and a query with more than one turn before it
START = {"head": HEAD, "query": QUERY, "Tp": 0}  # the circle alone


def mixtures(record: Record | Result) -> dict[str, Float[np.ndarray, " key"]]:
    """Take the query's weights from the factors, tokens as wide as a position."""
    width = record.array("sigma").astype(np.float64)
    shrink = width / np.sqrt(width**2 + np.median(width) ** 2)
    left, right = (record.array(name)[HEAD].astype(np.float64) for name in ("left", "right"))
    pairs = ((left[QUERY] @ right.T) * shrink * shrink[QUERY])[: QUERY + 1]
    ramp = (record.array("own")[HEAD] * shrink)[: QUERY + 1]
    scores = {"circle alone": pairs, "ramp and circle": ramp + pairs}
    return {name: softmax(torch.from_numpy(each)).numpy() for name, each in scores.items()}


@style.in_style
def draw(record: Record | Result) -> Figure:
    """Draw the query's weights under each mixture, and query and far peak on the curve of the positions."""
    weights, curve = mixtures(record), record.array("curve")
    far = int(weights["circle alone"].argmax())
    fig, (keys, space) = style.new(1, 2, width_ratios=(3, 2))
    for (name, values), colour in zip(weights.items(), ("content", "semi_bias"), strict=True):
        keys.plot(values, color=style.COLOURS[colour], label=name)
    keys.axvline(QUERY, color=style.COLOURS["muted"], linewidth=0.8)
    keys.set(xlabel="position of the key", ylabel="attention weight", yscale="log", ylim=(1e-5, 1))
    keys.legend(loc="upper left")
    space.plot(curve[:, 0], curve[:, 2], color=style.COLOURS["muted"], linewidth=1)
    for at, name, colour in ((QUERY, "the query", "semi_bias"), (far, "where the circle alone looks", "content")):
        space.plot(*curve[at, [0, 2]], "o", color=style.COLOURS[colour], label=f"{name}, {at}")
    space.set(xlabel="around the circle", ylabel="up the ramp")
    space.legend(loc="upper left")
    return fig
