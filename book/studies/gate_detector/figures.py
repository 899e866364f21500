"""Figures of the page on the gate detector. Arrays and frames in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure

from analysis.plotting import style


@style.in_style
def rates(table: pd.DataFrame, *, held: int, title: str, across: str, ax: style.Panels | None = None) -> Figure:
    """Draw a table of per cents as a heat map with its numbers; a line parts the first ``held`` rows from the rest."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="square")
    seaborn.heatmap(
        table, ax=panel, annot=table.round().astype(int), fmt="d", vmin=0, vmax=100, cmap=style.WEIGHT_CMAP, cbar=False
    )
    panel.axhline(held, color=style.COLOURS["paper"], linewidth=3)
    panel.set(title=title, xlabel=across, ylabel="")
    panel.tick_params(axis="x", rotation=90)
    return figure


@style.in_style
def confusion(
    counts: np.ndarray, truth: Sequence[str], read: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw how often each gate (rows) is named as each (columns), in per cent of the rows."""
    share = pd.DataFrame(100 * counts / counts.sum(-1, keepdims=True), truth, read)
    return rates(
        share, held=len(truth), title="Lines and blocks are named rightly, points often not", across="named", ax=ax
    )


@style.in_style
def reliability(
    sizes: Sequence[int],
    recall: Mapping[str, np.ndarray],
    shuffled: np.ndarray,
    patterns: Sequence[str],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the share of drawn gates that are found in mixtures, and what is read into shuffled rows, by size of map."""
    figure, [(left, right)] = style.panels(ax, 1, 2)
    for panel, curves in ((left, recall), (right, dict(zip(patterns, shuffled.T, strict=True)))):
        for name, values in curves.items():
            panel.plot(sizes, 100 * values, "o-", color=style.GATES[name], label=name)
        panel.set(xscale="log", xlabel="positions", ylim=(0, 103))
        panel.set_xticks(sizes, [str(n) for n in sizes])
        panel.minorticks_off()
    left.set(ylabel="per cent", title="gates of mixtures that are found")
    right.set(title="attention read as a gate in shuffled rows")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
