"""Figures of the chapter on attention as a weighted mean. Each takes arrays and returns a Figure."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, spread

CONTROLS = {"random, rescaled to the trained size": "random, as large", "shuffled": "permuted", "untrained": "random"}
INPUTS_OF_GPT2 = ("positions alone", "random tokens")
NAMES = {"minilm": "MiniLM"}


@style.in_style
def dials(
    dials: np.ndarray,
    panels: Mapping[str, np.ndarray],
    controls: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the heads' entropy shares over the dial, ``(dial, head)`` per panel, and those of its control, by title.

    The first dial is 0 and is left out of the logarithmic axis.
    """
    fig, axes = style.panels(ax, 1, len(panels), size="wide", sharey=True)
    one = int(np.argmin(np.abs(dials - 1)))
    for panel, (title, curves) in zip(axes[0], panels.items(), strict=True):
        panel.axvline(1, color=style.COLOURS["muted"], linewidth=0.8)
        panel.plot(dials[1:], controls[title][1:], color=style.COLOURS["control"], linewidth=0.8)
        panel.plot(dials[1:], curves[1:], color=style.COLOURS["trained"], linewidth=1.1)
        panel.plot(np.ones(curves.shape[1]), curves[one], "o", color=style.COLOURS["highlight"])
        panel.set(title=title, xscale="log", xlabel="dial t", ylim=(-0.02, 1.02), xticks=(0.1, 1, 10))
    axes[0, 0].set_ylabel("entropy / log i")
    names = {"trained head": "trained", "control head": "control", "as trained": "highlight"}
    _legend(axes[0, -1], names, figure=fig, loc="outside lower center", ncols=len(names))
    return style.many_marks(fig)


@style.in_style
def turned(
    maps: np.ndarray, dials: Sequence[float], tokens: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw one head's attention, ``(dial, query, key)``, a panel per dial in two rows, on the scale of a root."""
    fig, axes = style.panels(ax, 2, -(-len(maps) // 2), size="square", sharex=True, sharey=True)
    for panel, dial, weights in zip(axes.flat, dials, maps, strict=True):
        shown = panel.imshow(np.sqrt(weights), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
        panel.set(title=f"t = {dial:g}", xticks=[], yticks=range(len(tokens)), yticklabels=tokens)
    for panel in axes[-1]:
        panel.set(xlabel="key")
    bar = fig.colorbar(shown, ax=axes, label="weight", ticks=np.sqrt([0, 0.1, 0.5, 1]), pad=0.01, shrink=0.7)
    bar.set_ticklabels(["0", "0.1", "0.5", "1"])
    return style.many_marks(fig)


@style.in_style
def placed(
    rows: Mapping[str, np.ndarray], controls: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw one row per model: one dot per head at its mean entropy share, the control's heads below it in grey."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    panel.axvline(1, color=style.COLOURS["muted"], linewidth=0.8)
    for y, (name, shares) in enumerate(rows.items()):
        panel.plot(shares, np.full(len(shares), -y + 0.16), "o", color=style.COLOURS["trained"], alpha=0.75)
        panel.plot(controls[name], np.full(len(controls[name]), -y - 0.16), "o", color=style.COLOURS["control"])
    panel.set(
        yticks=[-y for y in range(len(rows))],
        yticklabels=list(rows),
        xlim=(-0.02, 1.02),
        ylim=(0.5 - len(rows), 0.5),
        xlabel="entropy of a row over log of its keys (0: all on one key, 1: uniform)",
    )
    _legend(panel, {"trained head": "trained", "control head": "control"}, mark="o", loc="lower left")
    return fig


@style.in_style
def own_share(shares: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw how much of a row of the stream is the position's own input, over the position, one line per variant."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="half")
    for (name, values), colour in zip(shares.items(), ("uniform", "content", "semi_bias"), strict=True):
        panel.plot(np.arange(1, len(values) + 1), values, color=style.COLOURS[colour], label=name)
    panel.set(xscale="log", xlabel="position i, from 1", ylabel="share of the own input", ylim=(0, 1.05))
    panel.legend()
    return fig


def _legend(ax, names: Mapping[str, str], mark: str = "-", figure: Figure | None = None, **kwargs) -> None:
    """Name colours rather than lines, so that a family of lines has one entry; beside all panels, given the figure."""
    for name, colour in names.items():
        ax.plot([], [], "o" if colour == "highlight" else mark, color=style.COLOURS[colour], label=name)
    (figure or ax).legend(**kwargs)


@style.in_style
def ladder(models: Mapping[str, Ladder], flatter: int, *, ax: style.Panels | None = None) -> Figure:
    """Draw the mean evenness of each layer, a row each: trained, and joined to it the controls, over their seeds.

    ``flatter`` is the number of rows in which random weights of the trained size are the more even ones.
    """
    rows = {
        row: (of_model, layer)
        for name, of_model in models.items()
        for layer, row in enumerate(_name_rows(name, len(of_model.trained)))
    }
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    for y, (of_model, layer) in enumerate(rows.values()):
        parts = {name: spread(of_model.controls[rung])[layer] for name, rung in CONTROLS.items()}
        parts["trained"] = np.broadcast_to(of_model.trained[layer], 3)
        ends = parts["trained"][0], parts["random, rescaled to the trained size"][0]
        panel.plot(ends, [y, y], color=style.COLOURS["muted"], linewidth=1, zorder=1)
        for name, (mean, low, high) in parts.items():
            colour = style.COLOURS["trained"] if name == "trained" else style.RUNGS[CONTROLS[name]][0]
            panel.plot([low, high], [y, y], color=colour, linewidth=5, alpha=0.4, solid_capstyle="butt")
            panel.plot(mean, y, "o", color=colour, label=name if y == 0 else None)
    panel.set(
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
