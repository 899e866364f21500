"""Figures of the chapter on attention as a weighted mean. Each takes arrays and returns a Figure."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_points, share_legend


def product(W: np.ndarray, X: np.ndarray, Y: np.ndarray, columns: str) -> Figure:
    """Draw ``W X = Y`` as three tables of fractions, shaded from 0 to 1; ``columns`` names the tokens."""
    fig, axes = style.new(1, 3, size="wide")
    panels = [
        ("weights W", W, "key", "query"),
        ("inputs X", X, "token", "position"),
        ("output W X", Y, "token", "query"),
    ]
    for ax, (title, table, across, down) in zip(axes, panels, strict=True):
        ax.imshow(table, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
        for (row, column), value in np.ndenumerate(table):
            ax.text(
                column,
                row,
                str(Fraction(float(value)).limit_denominator(100)),
                ha="center",
                va="center",
                color=style.COLOURS["ink"] if value > 0.45 else "white",
            )
        names = list(columns) if across == "token" else [str(i + 1) for i in range(table.shape[1])]
        ax.set(
            title=title,
            xlabel=across,
            ylabel=down,
            xticks=range(table.shape[1]),
            xticklabels=names,
            yticks=range(table.shape[0]),
            yticklabels=[str(i + 1) for i in range(table.shape[0])],
        )
    return fig


def dials(dials: np.ndarray, panels: Mapping[str, np.ndarray], controls: Mapping[str, np.ndarray]) -> Figure:
    """Draw the heads' entropy shares over the dial, ``(dial, head)`` per panel, and those of its control, by title.

    The first dial is 0 and is left out of the logarithmic axis.
    """
    fig, axes = style.new(1, len(panels), size="wide", sharey=True, squeeze=False)
    one = int(np.argmin(np.abs(dials - 1)))
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        ax.axvline(1, color=style.COLOURS["muted"], linewidth=0.8)
        ax.plot(dials[1:], controls[title][1:], color=style.COLOURS["control"], linewidth=0.8)
        ax.plot(dials[1:], curves[1:], color=style.COLOURS["trained"], linewidth=1.1)
        ax.plot(np.ones(curves.shape[1]), curves[one], "o", color=style.COLOURS["highlight"])
        ax.set(title=title, xscale="log", xlabel="dial t", ylim=(-0.02, 1.02), xticks=(0.1, 1, 10))
    axes[0, 0].set_ylabel("entropy / log i")
    names = {"trained head": "trained", "control head": "control", "as trained": "highlight"}
    _legend(axes[0, -1], names, figure=fig, loc="outside lower center", ncols=len(names))
    return style.many_marks(fig)


def turned(maps: np.ndarray, dials: Sequence[float], tokens: Sequence[str]) -> Figure:
    """Draw one head's attention, ``(dial, query, key)``, a panel per dial in two rows, on the scale of a root."""
    fig, axes = style.new(2, -(-len(maps) // 2), size="square", sharex=True, sharey=True)
    for ax, dial, weights in zip(axes.flat, dials, maps, strict=True):
        shown = ax.imshow(np.sqrt(weights), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
        ax.set(title=f"t = {dial:g}", xticks=[], yticks=range(len(tokens)), yticklabels=tokens)
    for ax in axes[-1]:
        ax.set(xlabel="key")
    bar = fig.colorbar(shown, ax=axes, label="weight", ticks=np.sqrt([0, 0.1, 0.5, 1]), pad=0.01, shrink=0.7)
    bar.set_ticklabels(["0", "0.1", "0.5", "1"])
    return style.many_marks(fig)


def placed(rows: Mapping[str, np.ndarray], controls: Mapping[str, np.ndarray]) -> Figure:
    """Draw one row per model: one dot per head at its mean entropy share, the control's heads below it in grey."""
    fig, ax = style.new(size="wide")
    ax.axvline(1, color=style.COLOURS["muted"], linewidth=0.8)
    for y, (name, shares) in enumerate(rows.items()):
        ax.plot(shares, np.full(len(shares), -y + 0.16), "o", color=style.COLOURS["trained"], alpha=0.75)
        ax.plot(controls[name], np.full(len(controls[name]), -y - 0.16), "o", color=style.COLOURS["control"])
    ax.set(
        yticks=[-y for y in range(len(rows))],
        yticklabels=list(rows),
        xlim=(0, 1.02),
        ylim=(0.5 - len(rows), 0.5),
        xlabel="entropy of a row over log of its keys (0: all on one key, 1: uniform)",
    )
    _legend(ax, {"trained head": "trained", "control head": "control"}, mark="o", loc="lower left")
    return fig


def own_share(shares: Mapping[str, np.ndarray]) -> Figure:
    """Draw how much of a row of the stream is the position's own input, over the position, one line per variant."""
    fig, ax = style.new(size="half")
    for (name, values), colour in zip(shares.items(), ("uniform", "content", "semi_bias"), strict=True):
        ax.plot(np.arange(1, len(values) + 1), values, color=style.COLOURS[colour], label=name)
    ax.set(xscale="log", xlabel="position i, from 1", ylabel="share of the own input", ylim=(0, 1.05))
    ax.legend()
    return fig


def _legend(ax, names: Mapping[str, str], mark: str = "-", figure: Figure | None = None, **kwargs) -> None:
    """Name colours rather than lines, so that a family of lines has one entry; beside all panels, given the figure."""
    for name, colour in names.items():
        ax.plot([], [], "o" if colour == "highlight" else mark, color=style.COLOURS[colour], label=name)
    (figure or ax).legend(**kwargs)


def ladder(models: Mapping[str, Ladder]) -> Figure:
    """Draw the mean entropy of each layer, trained and in the controls, one panel per model."""
    heights = [len(of_model.trained) for of_model in models.values()]
    fig, axes = style.new(len(models), 1, size="tall", sharex=True, height_ratios=heights)
    for ax, (name, of_model) in zip(axes, models.items(), strict=True):
        rows = (
            ["layer 0, positions", "layer 0, stand-ins"]
            if name == "gpt2"
            else [f"layer {layer}" for layer in range(len(of_model.trained))]
        )
        draw_points(ax, of_model, rows)
        ax.set_title(name, loc="left")
    axes[-1].set(xlabel="entropy over log i", xlim=(0, 1.03))
    share_legend(fig, axes)
    return fig
