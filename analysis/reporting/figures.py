"""The figures of a report: arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.plotting import ladder, style
from analysis.plotting.ladder import Ladder

LABELLED = 24
"""Tokens of a map that is drawn with them: more are too small to read."""
DASHES = "-", "--", ":", "-."


def _count(panel: Axes, *axes: str) -> None:
    """Put ticks at whole numbers only: there is no layer and no head between two."""
    for axis in axes:
        getattr(panel, f"{axis}axis").set_major_locator(MaxNLocator(integer=True))


def _cells(panel: Axes, values: Shaped[np.ndarray, "row column"], **options):
    """Draw numbers as one small image: each rasterised panel would take memory as large as the figure."""
    return panel.imshow(values, **{"aspect": "auto", "interpolation": "nearest", "cmap": style.WEIGHT_CMAP} | options)


def over_layers(curves: Mapping[str, Float[np.ndarray, " layer"]], ylabel: str) -> Figure:
    """Draw several quantities over the layers in one panel."""
    figure, panel = style.new()
    for dashes, (name, values) in zip(DASHES * len(curves), curves.items()):
        panel.plot(values, dashes, marker="o", label=name)
    panel.set(xlabel="layer", ylabel=ylabel, ylim=(min(0, np.nanmin(list(curves.values()))), None))
    panel.legend()
    _count(panel, "x")
    return figure


def heat_map(
    values: Float[np.ndarray, "row column"], *, xlabel: str, ylabel: str, label: str, centred: bool = False
) -> Figure:
    """Draw a table of numbers as colours, around 0 or from the least to the largest."""
    figure, panel = style.new(size="wide" if len(values) < 25 else "tall")
    limit = float(np.quantile(np.abs(values), 0.995))  # one outlier would leave all else pale
    scale = {"norm": style.centred(values, limit), "cmap": style.SCORE_CMAP} if centred else {}
    image = _cells(panel, values, **scale)
    panel.set(xlabel=xlabel, ylabel=ylabel)
    _count(panel, "x", "y")
    figure.colorbar(image, ax=panel, label=label)
    return figure


def kernels(of: Mapping[str, Float[np.ndarray, "head distance"]]) -> Figure:
    """Draw what each head prefers by distance, a panel for each set of kernels, with a scale of its own."""
    figure, axes = style.new(1, len(of), size="wide", squeeze=False)
    for panel, (title, values) in zip(axes.flat, of.items(), strict=True):
        image = _cells(panel, values, cmap=style.SCORE_CMAP, norm=style.centred(values, float(np.abs(values).max())))
        panel.set(title=title, xlabel="distance to the key", ylabel="head")
        _count(panel, "x", "y")
        figure.colorbar(image, ax=panel, label="nats")
    return figure


def shares(of: Mapping[str, Float[np.ndarray, "layer part"]], names: Sequence[str]) -> Figure:
    """Draw the share of each part of the score by layer, as bars on one another, a panel for each origin."""
    figure, axes = style.new(1, len(of), size="wide", sharey=True, squeeze=False)
    for panel, (title, parts) in zip(axes.flat, of.items(), strict=True):
        _stack(panel, parts, names)
        panel.set(title=title, xlabel="layer")
    axes[0, 0].set_ylabel("share of the divergence")
    ladder.share_legend(figure, axes.flat[:1])
    return figure


def _stack(panel: Axes, parts: Float[np.ndarray, "layer part"], names: Sequence[str]) -> None:
    colours = [style.COLOURS[name] for name in ("content", "semi_bias", "positional", "row_constant")]
    above = below = np.zeros(len(parts))
    for values, name, colour in zip(parts.T, names, colours, strict=True):
        bottom = np.where(values < 0, below, above)
        panel.bar(np.arange(len(parts)), values, bottom=bottom, label=name, color=colour)
        above, below = above + np.maximum(values, 0), below + np.minimum(values, 0)
    panel.axhline(0, color=style.COLOURS["ink"], linewidth=0.8)
    _count(panel, "x")


def largest_gates(scores: Float[np.ndarray, "layer head gate"], names: Sequence[str]) -> Figure:
    """Draw the name of the gate that carries most of each head's attention, as a colour."""
    figure, panel = style.new()
    largest = scores.argmax(-1)
    colours = ListedColormap([style.GATES[name] for name in names])
    _cells(panel, largest, cmap=colours, vmin=-0.5, vmax=len(names) - 0.5)
    panel.set(xlabel="head", ylabel="layer")
    _count(panel, "x", "y")
    present = [name for i, name in enumerate(names) if (largest == i).any()]
    figure.legend(
        handles=[Patch(color=style.GATES[name], label=name) for name in present], loc="outside lower center", ncols=5
    )
    return figure


def against_controls(panels: Mapping[str, Ladder], ylabels: Sequence[str], xlabel: str = "layer") -> Figure:
    """Draw the network beside its controls, a panel a measure."""
    size = "wide" if len(panels) <= 2 else "tall"
    if len(panels) <= 2:
        return ladder.lines(panels, ylabels, xlabel=xlabel, size=size)
    figure, axes = style.new(2, 2, size=size, squeeze=False)
    for panel, ylabel, (title, measured) in zip(axes.flat, ylabels, panels.items(), strict=True):
        ladder.draw_lines(panel, measured)
        panel.set(xlabel=xlabel, ylabel=ylabel, title=title)
        _count(panel, "x")
    ladder.share_legend(figure, axes.flat)
    return figure


def by_head(of: Mapping[str, Float[np.ndarray, "layer head"]]) -> Figure:
    """Draw one number of every head, a panel a measure, layers down and heads across, all from 0 to 1."""
    columns = 2
    figure, axes = style.new(-(-len(of) // columns), columns, size="tall" if len(of) <= 4 else "page", squeeze=False)
    for panel in axes.flat[len(of) :]:
        panel.axis("off")
    for panel, (title, values) in zip(axes.flat, of.items()):
        image = _cells(panel, values, vmin=0, vmax=1)
        if panel.get_subplotspec().is_last_col():
            figure.colorbar(image, ax=panel)
        panel.set(title=title, xlabel="head", ylabel="layer")
        _count(panel, "x", "y")
    return figure


def small_maps(
    maps: Sequence[Float[np.ndarray, "query key"]], titles: Sequence[str], tokens: Sequence[str] | None = None
) -> Figure:
    """Draw maps side by side, each from white at 0 to its own largest weight, with the first tokens at both axes."""
    columns, shown = 2, len(maps[0]) if tokens is None else min(LABELLED, len(maps[0]))
    rows = -(-len(maps) // columns)
    figure, axes = style.new(rows, columns, size="page", squeeze=False)
    figure.set_size_inches(style.SIZES["page"][0], 3.5 * rows)
    for panel in axes.flat[len(maps) :]:
        panel.axis("off")
    for panel, attention, title in zip(axes.flat, maps, titles):
        labels = [] if tokens is None else [token.replace("$", r"\$") for token in tokens[:shown]]
        _cells(panel, attention[:shown, :shown], aspect="equal", vmin=0)
        panel.set_xticks(range(len(labels)), labels, rotation=90)
        panel.set_yticks(range(len(labels)), labels)
        panel.tick_params(labelsize=5.5, length=0)
        panel.set_title(title, fontsize="small")
    return figure
