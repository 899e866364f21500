"""Figures of the chapter on gates: the atlas, one attention map, the gallery, the census. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.plotting import style
from analysis.plotting.ladder import share_legend
from analysis.statistics.intervals import Interval


def gate_colours(order: Sequence[str]) -> ListedColormap:
    """Return the colour map of gates, in the order of ``gates.GATES``."""
    return ListedColormap([style.GATES[name] for name in order])


def atlas(gates: Mapping[str, np.ndarray]) -> Figure:
    """Draw one panel a gate: the map, and beside it what arrives at each position if value ``i`` has colour ``i``."""
    figure, axes = style.new(2, 8, size="wide", width_ratios=[8, 1] * 4)
    for panel, strip, (name, gate) in zip(axes[:, ::2].flat, axes[:, 1::2].flat, gates.items(), strict=True):
        n = len(gate)
        panel.imshow(np.sqrt(gate), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)  # or 1/n could not be told from 0
        panel.set(title=name, xticks=[], yticks=[])
        arrives = gate @ np.arange(n)
        strip.imshow(arrives[:, None], cmap=style.POSITION_CMAP, vmin=0, vmax=n - 1, aspect="auto")
        strip.set(xticks=[], yticks=[])
    return figure


def attention_map(
    attention: np.ndarray,
    tokens: Sequence[str] | None = None,
    *,
    cells: np.ndarray | None = None,
    order: Sequence[str] | None = None,
    title: str = "",
    limit: float | None = None,
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
    figure, axes = style.new(1, 1 if cells is None else 2, size="square" if cells is None else "tall", sharey=True)
    panels = np.atleast_1d(axes)
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


def draw_cells(panel, cells: np.ndarray, order: Sequence[str]) -> None:
    """Paint each cell in the colour of its gate; what a query may not see stays white."""
    panel.imshow(
        np.ma.masked_less(cells, 0),
        cmap=gate_colours(order),
        norm=BoundaryNorm(np.arange(len(order) + 1) - 0.5, len(order)),
    )


def name_gates(figure: Figure, names: Sequence[str]) -> None:
    """Put a legend of gates under a figure."""
    figure.legend(
        handles=[Patch(color=style.GATES[name], label=name) for name in names],
        loc="outside lower center",
        ncols=min(len(names), 5),
    )


def gallery(
    maps: Sequence[np.ndarray],
    cells: Sequence[np.ndarray],
    titles: Sequence[str],
    order: Sequence[str],
    tokens: Sequence[str],
) -> Figure:
    """Draw heads: each map with the gate of each cell beside it; queries are named on the left."""
    figure, axes = style.new(len(maps) // 2, 4, size="page" if len(maps) > 6 else "tall")
    for i, (attention, gate, title) in enumerate(zip(maps, cells, titles, strict=True)):
        left, right = axes[i // 2, 2 * (i % 2)], axes[i // 2, 2 * (i % 2) + 1]
        left.imshow(attention, cmap=style.WEIGHT_CMAP, vmin=0, vmax=np.quantile(attention, 0.99))
        draw_cells(right, gate, order)
        if len(names := np.unique(gate)) == 1:  # an empty panel would look like a mistake
            right.text(0.5, 0.5, f"all {order[names[0]]}", transform=right.transAxes, ha="center", va="center")
        left.set_title(title, loc="left")
        for panel in (left, right):
            panel.set(xticks=[], yticks=[])
        if i % 2 == 0:
            every = max(1, len(tokens) // 8)
            left.set_yticks(range(0, len(tokens), every), tokens[::every])
    name_gates(figure, [order[i] for i in np.unique(np.stack(cells)) if i >= 0])
    return style.many_marks(figure)


def confusion(counts: np.ndarray, truth: Sequence[str], read: Sequence[str]) -> Figure:
    """Draw how often each gate (rows) is named as each (columns), in per cent of the rows."""
    figure, axes = style.new(size="square")
    share = 100 * counts / counts.sum(-1, keepdims=True)
    axes.imshow(share, cmap=style.WEIGHT_CMAP, vmin=0, vmax=100)
    for (i, j), value in np.ndenumerate(share):
        if value >= 0.5:
            axes.text(
                j, i, f"{value:.0f}", ha="center", va="center", color=style.COLOURS["ink"] if value > 60 else "white"
            )
    axes.set_xticks(range(len(read)), read, rotation="vertical")
    axes.set_yticks(range(len(truth)), truth)
    axes.set(xlabel="named", ylabel="drawn")
    return figure


def confusions(above: Mapping[str, np.ndarray], below: Mapping[str, np.ndarray]) -> Figure:
    """Draw two rows of small tables of confusion, by their titles; colours only, per cent of each row."""
    figure, axes = style.new(2, max(len(above), len(below)), size="wide")
    for panels, tables in zip(axes, (above, below), strict=True):
        for panel, (title, counts) in zip(panels, tables.items(), strict=False):
            panel.imshow(counts / counts.sum(-1, keepdims=True), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
            panel.set(title=title, xticks=[], yticks=[])
        for panel in panels[len(tables) :]:
            panel.set_visible(False)
        panels[0].set(xlabel="named", ylabel="drawn")
    return figure


def reliability(
    sizes: Sequence[int], recall: Mapping[str, np.ndarray], shuffled: np.ndarray, patterns: Sequence[str]
) -> Figure:
    """Draw the share of drawn gates that are found in mixtures, and what is read into shuffled rows, by size of map."""
    figure, (left, right) = style.new(1, 2)
    for name, values in recall.items():
        left.plot(sizes, 100 * values, "o-", color=style.GATES[name], label=name)
    left.set(xscale="log", xlabel="positions", ylabel="found (%)", ylim=(0, 103), title="gates in mixtures")
    for name, values in zip(patterns, shuffled.T, strict=True):
        right.plot(sizes, 100 * values, "o-", color=style.GATES[name], label=name)
    right.set(
        xscale="log",
        xlabel="positions",
        ylabel="share of attention (%)",
        ylim=(0, None),
        title="the same maps, rows shuffled",
    )
    for panel in (left, right):
        panel.set_xticks(sizes, [str(n) for n in sizes])
        panel.minorticks_off()
    share_legend(figure, (left, right))  # within a panel it would lie on the curves
    return figure


def calibration(
    rates: Mapping[str, Sequence[Interval]],
    promised: float,
    power: Mapping[str, Sequence[float]],
    gates: Mapping[str, str],
    sizes: Sequence[int],
) -> Figure:
    """Draw false alarms beside what is promised, with intervals, and how much of a drawn gate is named.

    Parameters
    ----------
    rates
        For each gate the rate in every kind of independent rows.
    promised
        At most this rate.
    power, gates
        For each drawn kind of map the share of its gate's cells that is named, by size; and its gate.
    sizes
        Positions of the maps.
    """
    figure, (left, right) = style.new(1, 2, size="tall", width_ratios=[1, 1])
    for i, (name, spans) in enumerate(rates.items()):
        at = i + np.linspace(-0.35, 0.35, len(spans))
        low, value, high = (100 * np.array([getattr(s, end) for s in spans]) for end in ("low", "value", "high"))
        left.errorbar(
            value, at, xerr=[value - low, high - value], fmt="o", color=style.GATES[name], markersize=3, linewidth=1
        )
    left.axvline(100 * promised, color=style.COLOURS["ink"], linestyle="--")
    left.set_yticks(range(len(rates)), rates)
    left.set(
        xlabel="maps of independent rows with it (%)",
        xlim=(0, None),
        ylim=(len(rates) - 0.5, -0.5),
        title="false alarms",
    )
    for i, (kind, shares) in enumerate(power.items()):
        for j, share in enumerate(shares):
            size = 3 + 2 * j
            right.plot(
                100 * share,
                i,
                "o",
                color=style.GATES[gates[kind]],
                markersize=size,
                fillstyle="none",
                label=f"{sizes[j]} positions" if i == 0 else None,
            )
    right.set_yticks(range(len(power)), power)
    right.yaxis.tick_right()
    right.set(xlabel="cells named (%)", xlim=(-4, 104), ylim=(len(power) - 0.5, -0.5), title="drawn gates")
    right.legend(loc="upper left")
    return figure


def census(scores: Mapping[str, np.ndarray], order: Sequence[str]) -> Figure:
    """Draw every head's mean shares as a stacked bar, layers side by side; one row of bars a model."""
    figure, axes = style.new(len(scores), 1, size="tall", sharex=True, height_ratios=[2] + [1] * (len(scores) - 1))
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


def sinks(kinds: Sequence[str], shares: Mapping[str, np.ndarray], correlations: Mapping[str, np.ndarray]) -> Figure:
    """Draw who gets attention by kind of token, and how columns follow the key semi-bias, head by head."""
    figure, (left, right) = style.new(1, 2, width_ratios=[3, 2])
    width = 0.8 / len(shares)
    colours = [style.COLOURS[name] for name in ("muted", "trained", "highlight", "control")]
    for i, (name, values) in enumerate(shares.items()):
        left.bar(
            np.arange(len(kinds)) + (i - (len(shares) - 1) / 2) * width,
            100 * values,
            width,
            label=name,
            color=colours[i],
        )
    left.set_xticks(range(len(kinds)), kinds)
    left.set(ylabel="share (%)")
    left.legend()
    for i, (name, values) in enumerate(correlations.items()):
        right.plot(
            np.sort(values),
            np.linspace(0, 100, len(values)),
            drawstyle="steps-post",
            label=name,
            color=style.COLOURS["semi_bias" if i == 0 else "control"],
        )
    right.set(xlabel="correlation with the key semi-bias", ylabel="heads at or below (%)", xlim=(-1, 1))
    right.legend(loc="upper left")
    return figure


def ablation(closed: Mapping[str, np.ndarray], effect: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw each head's effect on the embedding against its closed share: silenced and levelled, trained and control."""
    figure, axes = style.new(1, 2, sharex=True, sharey=True)
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
