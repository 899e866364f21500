"""Figures of the chapter on attention as a weighted mean. Each takes arrays and returns a Figure."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, spread

CONTROLS = {"random, rescaled to the trained size": "random, as large", "shuffled": "permuted", "untrained": "random"}
INPUTS_OF_GPT2 = ("positions alone", "random tokens")
NAMES = {"minilm": "MiniLM"}


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
        xlim=(-0.02, 1.02),
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


def ladder(models: Mapping[str, Ladder], flatter: int) -> Figure:
    """Draw the mean evenness of each layer, a row each: trained, and joined to it the controls, over their seeds.

    ``flatter`` is the number of rows in which random weights of the trained size are the more even ones.
    """
    rows = {
        row: (of_model, layer)
        for name, of_model in models.items()
        for layer, row in enumerate(_name_rows(name, len(of_model.trained)))
    }
    fig, ax = style.new(size="wide")
    for y, (of_model, layer) in enumerate(rows.values()):
        parts = {name: spread(of_model.controls[rung])[layer] for name, rung in CONTROLS.items()}
        parts["trained"] = np.broadcast_to(of_model.trained[layer], 3)
        ends = parts["trained"][0], parts["random, rescaled to the trained size"][0]
        ax.plot(ends, [y, y], color=style.COLOURS["muted"], linewidth=1, zorder=1)
        for name, (mean, low, high) in parts.items():
            colour = style.COLOURS["trained"] if name == "trained" else style.RUNGS[CONTROLS[name]][0]
            ax.plot([low, high], [y, y], color=colour, linewidth=5, alpha=0.4, solid_capstyle="butt")
            ax.plot(mean, y, "o", color=colour, label=name if y == 0 else None)
    ax.set(
        title=f"In {flatter} of {len(rows)} cases random weights of the trained size are still more even.",
        xlabel="evenness (0: all on one word, 1: the plain mean)",
        yticks=range(len(rows)),
        yticklabels=list(rows),
        xlim=(0.4, 1.02),
        ylim=(len(rows) - 0.4, -0.6),
    )
    fig.legend(loc="outside lower center", ncols=len(CONTROLS) + 1)
    return fig


def _name_rows(model: str, rows: int) -> list[str]:
    """Name the rows of a model: its layers, or of GPT-2 the inputs of its first layer."""
    if model == "gpt2":
        return [f"GPT-2, layer 0, {given}" for given in INPUTS_OF_GPT2]
    return [f"{NAMES.get(model, model)}, layer {layer}" for layer in range(rows)]
