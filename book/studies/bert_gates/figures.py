"""Figures of the chapter on gates: one map, the census, what is learned, the sink. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.attention_maps import draw_cells, draw_readings, name_gates
from analysis.statistics.intervals import Interval

gallery = draw_readings  # the case study of the classifier calls it so


@style.in_style
def attention_map(
    attention: np.ndarray,
    tokens: Sequence[str] | None = None,
    *,
    cells: np.ndarray | None = None,
    order: Sequence[str] | None = None,
    title: str = "",
    limit: float | None = None,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw one attention map: queries down, keys across; with ``cells`` a second panel names each cell's gate.

    Parameters
    ----------
    attention
        ``(query, key)``, rows sum to 1.
    tokens
        Labels of both axes; without them positions are numbered.
    cells, order
        Each cell's gate as ``GateReading.cells`` has it, and the names in that order (``gates.GATES``).
    limit
        Weight at the top of the scale; default: the largest.
    ax
        One panel to draw into, or two with ``cells``; default: a new figure.

    Returns
    -------
    Figure
        ``figure.savefig("map.svg")`` or ``.png`` exports it.

    Raises
    ------
    ValueError
        If the map is not square, or tokens or cells do not fit it.
    """
    n = len(attention)
    if attention.ndim != 2 or attention.shape != (n, n):
        raise ValueError(f"attention must be one map (query, key), got shape {attention.shape}")
    if tokens is not None and len(tokens) != n:
        raise ValueError(f"tokens must be {n}, one a position, got {len(tokens)}")
    if cells is not None and (cells.shape != attention.shape or order is None):
        raise ValueError(f"cells must have the shape {attention.shape} of the map and come with their order of names")
    count, size = (1, "square") if cells is None else (2, "tall")
    figure, [panels] = style.panels(ax, 1, count, size=size, sharey=True)
    image = panels[0].imshow(attention, cmap=style.WEIGHT_CMAP, vmin=0, vmax=limit or float(attention.max()))
    figure.colorbar(image, ax=list(panels), label="attention", location="top", shrink=0.5)
    panels[0].set(title=title)
    if cells is not None:
        draw_cells(panels[1], cells, order)
        panels[1].set(title="read as")
        name_gates(figure, [order[i] for i in np.unique(cells[cells >= 0])])
    for panel in panels:
        panel.set(xlabel="key")
        if tokens is not None:
            every = range(0, n, 1 + n // 30)
            panel.set_xticks(every, [tokens[i] for i in every], rotation="vertical")
            panel.set_yticks(every, [tokens[i] for i in every])
    panels[0].set(ylabel="query")
    return style.many_marks(figure)


@style.in_style
def census(scores: Mapping[str, np.ndarray], order: Sequence[str], *, ax: style.Panels | None = None) -> Figure:
    """Draw every head's mean shares as a stacked bar, layers side by side; one row of bars a model."""
    figure, grid = style.panels(
        ax, len(scores), 1, size="tall", sharex=True, height_ratios=[2] + [1] * (len(scores) - 1)
    )
    axes = grid[:, 0]
    for panel, (which, by_head) in zip(axes, scores.items(), strict=True):
        layers, heads, _ = by_head.shape
        places = (np.arange(layers)[:, None] * (heads + 1.5) + np.arange(heads)).ravel()
        flat, base = by_head.reshape(-1, len(order)), np.zeros(layers * heads)
        for i, name in enumerate(order):
            panel.bar(places, 100 * flat[:, i], 0.9, bottom=100 * base, color=style.GATES[name])
            base += flat[:, i]
        panel.set(ylabel="share (%)", title=which, ylim=(0, 100))
        panel.set_xticks(places.reshape(layers, heads).mean(1), range(layers))
    axes[-1].set(xlabel="layer")
    name_gates(figure, order)
    return figure


@style.in_style
def heads_by_gate(scores: np.ndarray, order: Sequence[str], *, ax: style.Panels | None = None) -> Figure:
    """Draw every head's mean share of each gate: one panel a gate, layers down and heads across, one scale."""
    figure, axes = style.panels(ax, 2, -(-len(order) // 2), size="wide", sharex=True, sharey=True)
    for panel in axes.flat[len(order) :]:
        panel.set_visible(False)
    for panel, name, shares in zip(axes.flat, order, np.moveaxis(scores, -1, 0), strict=False):
        image = panel.imshow(100 * shares, cmap=style.WEIGHT_CMAP, vmin=0, vmax=100, aspect="auto")
        panel.set(title=name, xticks=[], yticks=range(len(shares)))
    for panel in axes[:, 0]:
        panel.set(ylabel="layer")
    axes[-1, 0].set(xlabel="heads")
    figure.colorbar(image, ax=axes, label="of its attention (%)")
    return figure


@style.in_style
def learned(
    shares: Mapping[str, tuple[Interval, Mapping[str, tuple[float, float]]]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw shares of a trained model with intervals, and in grey the ranges of its controls, all on one scale."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    for row, (trained, controls) in enumerate(shares.values()):
        low, value, high = (100 * end for end in (trained.low, trained.value, trained.high))
        reach, blue = [[value - low], [high - value]], style.COLOURS["trained"]
        panel.errorbar(value, row, xerr=reach, fmt="o", color=blue, label="" if row else "MiniLM")
        for k, (control, (low, high)) in enumerate(controls.items()):
            at, look = row + 0.2 * (k + 1), {"color": style.COLOURS["control"], "marker": "os"[k % 2]}
            panel.plot([100 * low, 50 * (low + high), 100 * high], [at] * 3, markevery=[1], linewidth=3, **look)
            panel.lines[-1].set_label("" if row else control)
    panel.set_yticks(np.arange(len(shares)) + 0.2, shares)
    panel.set(
        xlabel="per cent",
        xlim=(-2, 102),
        ylim=(len(shares) - 0.3, -0.3),
        title="Random weights have columns too, but hardly anything else",
    )
    panel.legend(loc="lower right")
    return figure


@style.in_style
def volume(effects: Mapping[str, Interval], control: str, *, ax: style.Panels | None = None) -> Figure:
    """Draw how far the sentence turns by what is done with the sink's weight; the control is grey."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="strip")
    for row, (name, effect) in enumerate(effects.items()):
        colour = style.COLOURS["control" if name == control else "trained"]
        panel.barh(row, effect.value, color=colour)
        panel.plot([effect.low, effect.high], [row, row], color=style.COLOURS["ink"], linewidth=1)
        panel.annotate(
            f"{effect.value:.3f}", (effect.high, row), (5, 0), textcoords="offset points", va="center", ha="left"
        )
    panel.set_yticks(range(len(effects)), effects)
    panel.set(
        xlabel="how far the vector of a text turns (1 - cosine)",
        ylim=(len(effects) - 0.4, -0.6),
        xlim=(0, 1.2 * max(effect.high for effect in effects.values())),
        title="Deleting the sink changes almost nothing",
    )
    return figure


@style.in_style
def one_row(
    weights: np.ndarray, lengths: np.ndarray, tokens: Sequence[str], query: str, *, ax: style.Panels | None = None
) -> Figure:
    """Draw what one query gives each token, and beside it the length of what arrives from there."""
    figure, [panels] = style.panels(ax, 1, 2, sharey=True)
    colours = [style.COLOURS["highlight"]] + [style.COLOURS["trained"]] * (len(tokens) - 1)
    titles = f"the weight that '{query}' gives", "what arrives from there"
    for panel, values, title in zip(panels, (weights, weights * lengths), titles, strict=True):
        panel.barh(range(len(tokens)), values, color=colours)
        panel.set(title=title, xlim=(0, None))
    panels[0].set_yticks(range(len(tokens)), tokens)
    panels[0].invert_yaxis()
    panels[0].set(xlabel="share of the row")
    panels[1].set(xlabel="length, weighted")
    return figure


@style.in_style
def sinks(
    kinds: Sequence[str], shares: Mapping[str, np.ndarray], follows: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw who gets attention by kind of token, and how columns follow the key semi-bias, head by head."""
    figure, [(left, right)] = style.panels(ax, 1, 2, width_ratios=[3, 2])
    colours = [style.COLOURS[name] for name in ("muted", "trained", "highlight", "control")]
    width = 0.8 / len(shares)
    for i, (name, values) in enumerate(shares.items()):
        places = np.arange(len(kinds)) + (i - (len(shares) - 1) / 2) * width
        left.bar(places, 100 * values, width, label=name, color=colours[i])
    left.set_xticks(range(len(kinds)), kinds)
    left.set(ylabel="share (%)", title="The first token gets the columns")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(shares))
    seaborn.histplot(x=follows, ax=right, binwidth=0.1, binrange=(-1, 1), color=style.COLOURS["semi_bias"])
    right.set(xlabel="correlation with the key semi-bias", ylabel="heads", title="Columns follow the semi-bias")
    return figure


@style.in_style
def ablation(
    closed: Mapping[str, np.ndarray], effect: Mapping[str, Mapping[str, np.ndarray]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw each head's effect on the embedding against its closed share: silenced and levelled, trained and control."""
    figure, [axes] = style.panels(ax, 1, 2, sharex=True, sharey=True)
    for panel, way in zip(axes, ("zero", "uniform"), strict=True):
        for which in ("control", "trained"):
            panel.plot(
                100 * closed[which].ravel(), effect[which][way].ravel(), "o", color=style.COLOURS[which], label=which
            )
        panel.set(
            xlabel="closed share (%)", yscale="log", title={"zero": "head silenced", "uniform": "map made uniform"}[way]
        )
    axes[0].set(ylabel="1 - cos of embeddings")
    axes[0].legend()
    return figure
