"""Figures of the chapter on the information stream. Arrays in, a figure out."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared.layer_lines import Line, lines

LEAST = 0.02  # a shorter bar cannot be seen, so its number is written


@style.in_style
def couplings(off: Mapping[str, Mapping[str, np.ndarray]], mixed: float, *, ax: style.Panels | None = None) -> Figure:
    """Draw how much of each map's coupling runs between blocks: a bar for the trained layers, a dot for the control's.

    Parameters
    ----------
    off
        By network (``"trained"``, ``"control"``) and map, ``(layer,)``: the share off the diagonal.
    mixed
        That share where all blocks are mixed alike.
    """
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    places = np.arange(len(off["trained"]))
    means = {network: [shares.mean() for shares in maps.values()] for network, maps in off.items()}
    panel.barh(places, means["trained"], height=0.55, color=style.COLOURS["trained"], label="MiniLM")
    panel.plot(means["control"], places, "D", color=style.COLOURS["control"], label="random weights")
    panel.axvline(mixed, color=style.COLOURS["ink"], linestyle=":", label="all blocks mixed alike")
    for place, mean in zip(places, means["trained"], strict=True):
        if mean < LEAST:
            panel.annotate(f"{mean:.2f}", (mean, place), (10, 0), textcoords="offset points", va="center")
    panel.set(yticks=places, yticklabels=list(off["trained"]), xlim=(0, 1))
    panel.set_xlabel("share of one block's effect that reaches other blocks")
    panel.set_title("$W_O$ mixes the heads; the skip connection carries blocks past the MLP")
    panel.invert_yaxis()
    panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


@style.in_style
def perceptron(
    additive: Mapping[str, np.ndarray],
    linear: Mapping[str, np.ndarray],
    cosine: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the MLP as a sum over blocks or a linear map, and the mean cosine of rows along a layer.

    Parameters
    ----------
    additive, linear
        By network (``"trained"``, ``"control"``), ``(layer,)``: shares of variance explained.
    cosine
        By network, ``(layer, activation, 3)`` with the ends of intervals: before attention, after the first LayerNorm,
        of what the MLP adds, after the second LayerNorm.
    """
    trained, control = cosine["trained"], cosine["control"]
    return lines(
        {
            "the MLP as a sum or a linear map": [
                Line(additive["trained"], "trained", "trained, sum over blocks"),
                Line(linear["trained"], "token", "trained, linear map", "--"),
                Line(additive["control"], "control", "control, sum over blocks"),
                Line(linear["control"], "muted", "control, linear map", "--"),
            ],
            "mean cosine of rows": [
                Line(trained[:, 0], "uniform", "before attention", ":"),
                Line(trained[:, 1], "positional", "after first LN"),
                Line(trained[:, 3], "record", "after second LN", "--"),
                Line(control[:, 3], "control", "control, after second LN"),
            ],
        },
        ["share of variance", ""],
        ax=ax,
    )


@style.in_style
def read_back(band: Callable[..., np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw what can be read back of what the heads wrote.

    ``band(what, activation)`` and ``band(what, activation, "control")`` are ``(layer, 3)``: the mean over blocks, the
    worst and the best.
    """
    bars = {
        "from the layer's input": (band("heads", "x"), "uniform"),
        "from its output": (band("heads", "second"), "record"),
        "from both": (band("heads", "x and second"), "trained"),
    }
    control = band("heads", "x and second", "control")
    return _bars(
        "What the heads wrote is read best from input and output", bars, control, "random weights, from both", ax
    )


@style.in_style
def read_back_mlp(band: Callable[..., np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw what can be read back of what the MLP read; ``band`` as for :func:`read_back`."""
    bars = {
        "from what the MLP adds": (band("first", "mlp_output"), "token"),
        "from the layer's output": (band("first", "second"), "record"),
    }
    control = band("first", "shuffled")
    return _bars("What the MLP read is mostly kept", bars, control, "from the output of other words", ax)


def _bars(
    title: str, bars: Mapping[str, tuple[np.ndarray, str]], control: np.ndarray, name: str, ax: style.Panels | None
) -> Figure:
    """Draw groups of bars over layers, and a dot of the control in each."""
    figure, [[axes]] = style.panels(ax, 1, 1, size="wide")
    width, layers = 0.8 / len(bars), np.arange(len(control))
    for place, (label, (shares, concept)) in enumerate(bars.items()):
        left = layers + (place - (len(bars) - 1) / 2) * width
        axes.bar(left, shares[:, 0], width, color=style.COLOURS[concept], label=label)
    axes.plot(layers, control[:, 0], "D", color=style.COLOURS["control"], label=name)
    room = max(1.0, 0.3 + max(shares[:, 0].max() for shares, _ in bars.values()))  # for the names above the bars
    axes.set(title=title, xlabel="layer", ylabel="share that can be read", xticks=layers, ylim=(-0.03, room))
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.legend(loc="upper center", ncols=2)
    return figure
