"""The viewer of a pattern: what each of three words looks for, in a plane, and what the words get."""

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style

START = {"word": "b", "bias": True}


def draw() -> Figure:
    """Draw what each of three words looks for, with discs as large as the attention that the words get."""
    words, bias = {"a": (1.0, 0.0), "b": (0.0, 1.0), "c": (1.0, 1.0)}, 1.0
    places = np.array(list(words.values()))
    figure, axes = style.new(1, 3, size="wide", sharex=True, sharey=True)
    for panel, name, (first, _) in zip(axes, words, places, strict=True):
        own = 2 * first
        weights = np.exp((own + bias) * places[:, 1])
        panel.scatter(*places.T, s=600 * weights / weights.sum(), color=style.COLOURS["token"], alpha=0.6)
        for word, (x, y) in words.items():
            panel.annotate(word, (x, y), (10, -3), textcoords="offset points")
        for low, high, part in ((0, own, "content"), (own, own + bias, "semi_bias")):
            if high > low:
                arrow = {"arrowstyle": "->", "color": style.COLOURS[part], "lw": 2, "shrinkA": 0, "shrinkB": 0}
                panel.annotate("", (0, high), (0, low), arrowprops=arrow)
        panel.set(title=f"{name} looks for (0, {own + bias:.0f})", xlim=(-0.4, 1.5), ylim=(-0.4, 3.2), xticks=[0, 1])
        panel.set(xlabel="first number", yticks=range(4))
    axes[0].set_ylabel("second number")
    return figure
