"""Figures of the chapter on the information stream. Arrays in, a figure out."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.layers import Line, lines, stacked


def couplings(rows: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw couplings of blocks, one row of panels a model: ``rows[model][map]`` is ``(to, source)`` with sum 1.

    The scale is logarithmic from a thousandth of an even share to the share of one block of a diagonal.
    """
    first = next(iter(rows.values()))
    figure, axes = style.new(len(rows), len(first), size="wide", squeeze=False)
    blocks = len(next(iter(first.values())))
    scale = LogNorm(1e-3 / blocks**2, 1 / blocks)
    for line, (model, panels) in zip(axes, rows.items(), strict=True):
        for panel, (name, values) in zip(line, panels.items(), strict=True):
            image = panel.imshow(np.maximum(values, scale.vmin), norm=scale, cmap=style.WEIGHT_CMAP)
            off = 1 - np.trace(values)
            panel.set(
                title=f"{name}\n{100 * off:.1f} % off" if panel in axes[0] else f"{100 * off:.1f} % off",
                xticks=[],
                yticks=[],
                xlabel="from block",
            )
        line[0].set_ylabel(f"{model}\nto block")
    figure.colorbar(image, ax=axes, shrink=0.8, label="share of the coupling", pad=0.01)
    return figure


def terms(size: np.ndarray, gone: np.ndarray, names: list[str]) -> Figure:
    """Draw the table of a score's terms: how much each varies along a row, and which vanish in the softmax.

    Parameters
    ----------
    size
        ``(query part, key part)``: standard deviation along rows, in nats.
    gone
        Which terms are constant along every row.
    names
        The parts; the last is the bias.
    """
    figure, panel = style.new(size="square")
    image = panel.imshow(np.where(gone, np.nan, size), cmap=style.WEIGHT_CMAP, vmin=0)
    for (i, j), value in np.ndenumerate(size):
        dark = value < 0.6 * np.nanmax(size)
        panel.text(
            j,
            i,
            "–" if gone[i, j] else f"{value:.2f}",
            ha="center",
            va="center",
            color="white" if dark and not gone[i, j] else style.COLOURS["ink"],
        )
    ticks = range(len(names))
    panel.set(
        xticks=ticks,
        yticks=ticks,
        xticklabels=[*names[:-1], "$b_K$"],
        yticklabels=[*names[:-1], "$b_Q$"],
        xlabel="part of the key",
        ylabel="part of the query",
    )
    figure.colorbar(image, ax=panel, shrink=0.8, label="deviation along a row, in nats")
    return figure


def perceptron(
    additive: Mapping[str, np.ndarray], linear: Mapping[str, np.ndarray], cosine: Mapping[str, np.ndarray]
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
    )


def read_back(band: Callable[..., np.ndarray]) -> Figure:
    """Draw what can be read back of the heads and of the MLP's input.

    ``band(what, activation)`` and ``band(what, activation, "control")`` are ``(layer, 3)``: the mean over blocks, the
    worst and the best.
    """
    panels = {
        "head outputs": [
            Line(band("heads", "attention_output"), "content", "after $W_O$"),
            Line(band("heads", "first"), "positional", "after the first LN"),
            Line(band("heads", "second"), "record", "after the layer"),
            Line(band("heads", "x"), "muted", "layer's input", "--"),
            Line(band("heads", "x and second"), "semi_bias", "input and output", ":"),
            Line(band("heads", "x and second", "control"), "control", "control, input and output", ":"),
        ],
        "MLP's input": [
            Line(band("first", "mlp_output"), "token", "from what the MLP adds"),
            Line(band("first", "second"), "record", "after the layer"),
            Line(band("first", "shuffled"), "muted", "shuffled", "--"),
            Line(band("first", "second", "control"), "control", "control, after the layer", ":"),
        ],
    }
    return stacked(panels, "share read back")
