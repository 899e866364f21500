"""Figures of the chapter on rank collapse and LayerNorm. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_points, share_legend
from analysis.statistics.intervals import mean_interval

# One look for each set of parts beside the skip connection, in every figure of the chapter.
LOOKS = {
    "attention": ("ink", "-", "o"),
    "attention + LayerNorm": ("content", "-", "s"),
    "attention + MLP": ("semi_bias", "-", "^"),
    "attention + linear MLP": ("semi_bias", "--", "v"),
    "attention + MLP + LayerNorm": ("positional", "-", "D"),
    "attention + linear MLP + LayerNorm": ("positional", "--", "d"),
}
FLOOR = 1e-16


@style.in_style
def spectra(values: Mapping[str, Mapping[str, np.ndarray]], cutoff: float, *, ax: style.Panels | None = None) -> Figure:
    """Draw singular values of what a LayerNorm reads and of the same rows centred, one panel a number of rows.

    Parameters
    ----------
    values
        For each panel's title, singular values by label, largest first; drawn relative to the largest.
    cutoff
        The tolerance of the rank, drawn as a line.
    """
    figure, [axes] = style.panels(ax, 1, len(values), sharey=True)
    colours = (style.COLOURS["ink"], style.COLOURS["highlight"])
    for panel, (title, curves) in zip(np.atleast_1d(axes), values.items(), strict=True):
        for (label, curve), colour, line in zip(curves.items(), colours, ("-", "--"), strict=False):
            relative = np.maximum(np.asarray(curve) / float(curve[0]), FLOOR / 10)
            panel.semilogy(np.arange(1, len(curve) + 1), relative, line, color=colour, label=label)
        panel.axhline(cutoff, color=style.COLOURS["muted"], linestyle=":", label="tolerance")
        panel.set(title=title, xlabel="singular value, largest first")
    np.atleast_1d(axes)[0].set(ylabel="relative to the largest")
    np.atleast_1d(axes)[0].legend(loc="lower left")
    return figure


def _draw(panel: Axes, runs: Mapping[str, np.ndarray], skip: bool, every: int = 1) -> None:
    """Draw the runs with or without skip connections: geometric mean and the range from the 10th to 90th percentile."""
    for label, (colour, line, marker) in LOOKS.items():
        name = label.replace("attention", "attention + skip") if skip else label
        if name not in runs:
            continue
        run = np.maximum(runs[name], FLOOR)
        low, high = np.quantile(run, [0.1, 0.9], axis=0)
        layer = np.arange(run.shape[1])
        panel.semilogy(
            layer,
            np.exp(np.log(run).mean(0)),
            line,
            marker=marker,
            markevery=every,
            color=style.COLOURS[colour],
            label=label,
        )
        panel.fill_between(layer, low, high, facecolor=style.COLOURS[colour], edgecolor="none", alpha=0.12)


@style.in_style
def collapse(runs: Mapping[str, Mapping[str, np.ndarray]], *, ax: style.Panels | None = None) -> Figure:
    """Draw the residual by depth: above without skip connections, below with them; one column a kind of stack.

    The panels above have one scale, those below have each its own.

    ``runs`` maps a column's title to curves ``(run, state)`` by the switches' description.
    """
    figure, axes = style.panels(ax, 2, len(runs), size="tall", sharex="col")
    for column, (title, found) in enumerate(runs.items()):
        for row, skip in enumerate((False, True)):
            _draw(axes[row, column], found, skip)
        lowest = min(np.quantile(run, 0.1, axis=0).min() for name, run in found.items() if "skip" in name)
        axes[0, column].set(title=title, ylim=(FLOOR / 3, 3))
        axes[0, column].tick_params(labelleft=column == 0)
        axes[1, column].set(xlabel="layer", ylim=(lowest / 1.5, 1.5))
    axes[0, 0].set(ylabel="residual, no skip")
    axes[1, 0].set(ylabel="residual, with skip")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def beside_control(
    trained: Mapping[str, np.ndarray], control: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the residual by depth of a trained model, ``(run, state)`` by the switches' description, and its control's.

    Left without skip connections, right with them; the control's curves, one a set of parts, are grey.
    """
    figure, [panels] = style.panels(ax, 1, 2, size="wide")
    for panel, skip in zip(panels, (False, True), strict=True):
        alike = [run for name, run in control.items() if ("skip" in name) == skip]
        for run in alike:
            middle = np.exp(np.log(np.maximum(run, FLOOR)).mean(0))
            panel.semilogy(
                np.arange(len(middle)),
                middle,
                color=style.COLOURS["control"],
                label="control, any parts" if run is alike[0] else None,
            )
        _draw(panel, trained, skip)
        panel.set(title=f"{'with' if skip else 'no'} skip connections", xlabel="layer")
    lowest = min(run.min() for name, run in trained.items() if "skip" in name)
    panels[0].set(ylabel="residual", ylim=(FLOOR / 3, 3))
    panels[1].set(ylim=(lowest / 1.3, 1.1))
    panels[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels[1].yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panels[1].yaxis.set_minor_formatter(NullFormatter())
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def settings(names: Sequence[str], ladder: Ladder, *, ax: style.Panels | None = None) -> Figure:
    """Draw the residual after the last layer, as a logarithm to base 10: a row for each setting of the switches."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="tall")
    draw_points(panel, ladder, names)
    panel.set(xlabel="log10 of the residual after the last layer")
    share_legend(figure, [panel])
    return figure


@style.in_style
def cubic(before: np.ndarray, after: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the residual after one layer against the residual before it, with lines of slope 3 and 1.

    ``after`` maps a layer's description to ``(run, size)``; slope 3 goes through the first, slope 1 through the last.
    """
    figure, [[panel]] = style.panels(ax, 1, 1)
    looks = (("ink", "o"), ("semi_bias", "^"), ("content", "s"), ("token", "v"), ("positional", "D"))
    for (label, found), (colour, marker) in zip(after.items(), looks, strict=True):
        panel.loglog(
            before,
            np.exp(np.log(found).mean(0)),
            marker=marker,
            linestyle="",
            fillstyle="none",
            color=style.COLOURS[colour],
            label=label,
        )
    for found, power, line in zip(
        (next(iter(after.values())), list(after.values())[-1]), (3, 1), (":", "--"), strict=True
    ):
        guide = np.exp(np.log(found).mean(0))[0] * (before / before[0]) ** power
        panel.loglog(before, guide, line, color=style.COLOURS["muted"], label=f"slope {power}")
    panel.set(xlabel="residual before the layer", ylabel="after it", ylim=(before[-1] ** 3 / 1e2, 1))
    panel.set(title="Attention that sees all rows alike cubes small differences")
    figure.legend(loc="outside right center")
    return figure


@style.in_style
def deep(runs: Mapping[float, Mapping[str, np.ndarray]], start: int = 24, *, ax: style.Panels | None = None) -> Figure:
    """Draw the residual of deep stacks with skip connections, one panel a gain, and the rate that is expected.

    Parameters
    ----------
    runs
        By gain, curves ``(run, state)`` by the switches' description, all with skip connections.
    start
        The layer of the first curve from which the expected rate is drawn, a factor ``(1 + gain^4)^(-1/2)`` a layer.
    """
    figure, [axes] = style.panels(ax, 1, len(runs), sharey=True)
    for panel, (gain, found) in zip(np.atleast_1d(axes), runs.items(), strict=True):
        _draw(panel, found, skip=True, every=8)
        first = np.exp(np.log(np.maximum(next(iter(found.values())), FLOOR)).mean(0))
        layer = np.arange(start, len(first))
        guide = first[start] * (1 + gain**4) ** (-(layer - start) / 2)
        panel.semilogy(
            layer[guide > FLOOR], guide[guide > FLOOR], ":", color=style.COLOURS["muted"], label="expected rate"
        )
        panel.set(title=f"gain {gain}", xlabel="layer", ylim=(FLOOR / 3, 3))
    np.atleast_1d(axes)[0].set(ylabel="residual, with skip")
    figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def widths(
    runs: Mapping[str, np.ndarray], sizes: Sequence[int], layers: tuple[int, int], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the residual by width with 95 % intervals over seeds: without skip connections (left) and with (right).

    Parameters
    ----------
    runs
        Curves ``(run, state)`` by the switches' description; the runs are ordered by width, then by seed.
    sizes
        The widths.
    layers
        After how many layers to look without, and after how many with skip connections.
    """
    figure, [axes] = style.panels(ax, 1, 2, sharey=True)
    for panel, skip, layer in zip(axes, (False, True), layers, strict=True):
        for shift, label in enumerate(label for label in LOOKS if "linear MLP +" not in label):
            run = runs[label.replace("attention", "attention + skip") if skip else label][:, layer]
            logs = np.log(np.maximum(run, FLOOR)).reshape(len(sizes), -1)
            bounds = [mean_interval(values) for values in logs]
            middle = np.exp([b.value for b in bounds])
            spread = np.abs(np.exp([[b.low for b in bounds], [b.high for b in bounds]]) - middle)
            colour, line, marker = LOOKS[label]
            panel.errorbar(
                np.array(sizes) * 1.03 ** (shift - 2),
                middle,
                spread,
                linestyle=line,
                marker=marker,
                color=style.COLOURS[colour],
                label=label,
            )
        panel.set(
            xscale="log",
            yscale="log",
            xticks=sizes,
            xticklabels=sizes,
            xlabel="width",
            title=f"after {layer} layers, {'with' if skip else 'no'} skip connections",
        )
        panel.set_xticks([], minor=True)
    axes[0].set(ylabel="residual")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
