"""The control levels in one look: the trained network as a line or a point, each level as a band over its seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plotting import style


class Ladder(NamedTuple):
    """One measure of a trained network and of its controls, by layer or along another axis.

    Attributes
    ----------
    trained
        ``(layer,)``, or ``(layer, 3)`` with the ends of an interval.
    controls
        By control level, ``(seed, layer)``.
    """

    trained: np.ndarray
    controls: Mapping[str, Float[np.ndarray, "seed layer"]]

    @property
    def middle(self) -> Float[np.ndarray, " layer"]:
        """The trained network's values without their interval."""
        return self.trained if self.trained.ndim == 1 else self.trained[:, 0]


def spread(values: Float[np.ndarray, "seed layer"]) -> Float[np.ndarray, "layer 3"]:
    """Return the mean over seeds with the smallest and the largest.

    >>> spread(np.array([[1.0], [2.0], [6.0]])).tolist()
    [[3.0, 1.0, 6.0]]
    """
    return np.stack([np.mean(values, 0), np.min(values, 0), np.max(values, 0)], 1)


def _with_own(colours: Mapping[str, str] | None) -> dict[str, str]:
    """Return the colours of the trained network and the control levels: by default those of the book."""
    own = {"trained": style.COLOURS["trained"]} | {level: colour for level, (colour, _) in style.LEVELS.items()}
    return own | dict(colours or {})


def draw_lines(
    panel: Axes, ladder: Ladder, along: Sequence[float] | None = None, colours: Mapping[str, str] | None = None
) -> None:
    """Draw a ladder over layers into a panel: a band for each control level, and the trained network's line on top."""
    colours = _with_own(colours)
    trained = ladder.trained if ladder.trained.ndim == 2 else np.stack([ladder.trained] * 3, 1)
    along = np.arange(len(trained)) if along is None else np.asarray(along)
    for level, values in ladder.controls.items():
        colour, dashes = colours[level], style.LEVELS[level][1]
        mean, low, high = spread(np.asarray(values)).T
        panel.fill_between(along, low, high, color=colour, alpha=0.25, linewidth=0)
        panel.plot(along, mean, dashes, color=colour, label=level)
    panel.fill_between(along, trained[:, 1], trained[:, 2], color=colours["trained"], alpha=0.2, linewidth=0)
    panel.plot(along, trained[:, 0], marker="o", color=colours["trained"], label="trained", zorder=3)


def draw_points(panel: Axes, ladder: Ladder, names: Sequence[str], colours: Mapping[str, str] | None = None) -> None:
    """Draw a ladder of named quantities into a panel, a row each: bars from the least seed to the largest, dots."""
    levels, colours = len(ladder.controls), _with_own(colours)
    rows = np.arange(len(names))
    trained = ladder.trained if ladder.trained.ndim == 2 else np.stack([ladder.trained] * 3, 1)
    panel.hlines(rows, trained[:, 1], trained[:, 2], color=colours["trained"], linewidth=1.5)
    panel.plot(trained[:, 0], rows, "o", color=colours["trained"], label="trained")
    for k, (level, values) in enumerate(ladder.controls.items()):
        colour = colours[level]
        mean, low, high = spread(np.asarray(values)).T
        at = rows + 0.6 * (k + 1) / (levels + 1)
        panel.hlines(at, low, high, color=colour, linewidth=4, alpha=0.5)
        panel.plot(mean, at, "|", color=colour, markersize=7, label=level)
    panel.set_yticks(rows + 0.2, names)
    panel.set_ylim(len(names) - 0.2, -0.4)


@style.in_style
def lines(
    panels: Mapping[str, Ladder],
    ylabels: Sequence[str],
    *,
    xlabel: str = "layer",
    size: str = "wide",
    rows: int = 1,
    ax: style.Panels | None = None,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ladders over layers, a panel per title in so many rows, with one legend.

    They are drawn into the panels ``ax``, if these are given; ``colours`` are those of the trained network and of
    the control levels.
    """
    columns = -(-len(panels) // rows)
    figure, axes = style.panels(ax, rows, columns, size=size)
    for panel, ylabel, (title, ladder) in zip(axes.flat, ylabels, panels.items(), strict=True):
        draw_lines(panel, ladder, colours=colours)
        layers = np.arange(len(ladder.trained))
        xticks = layers[::2] if len(layers) * columns > 30 else layers
        panel.set(xlabel=xlabel, ylabel=ylabel, title=title, xticks=xticks)
    share_legend(figure, axes.flat, ax)
    return figure


@style.in_style
def points(
    panels: Mapping[str, Ladder],
    names: Sequence[str],
    *,
    xlabels: Sequence[str],
    size: str = "wide",
    ax: style.Panels | None = None,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw ladders of named quantities, a panel a title, with one legend; ``ax`` and ``colours`` as in `lines`."""
    figure, axes = style.panels(ax, 1, len(panels), size=size, sharey=True)
    for panel, xlabel, (title, ladder) in zip(axes[0], xlabels, panels.items(), strict=True):
        draw_points(panel, ladder, names, colours)
        panel.set(xlabel=xlabel, title=title)
    share_legend(figure, axes[0], ax)
    return figure


def share_legend(figure: Figure, panels: Iterable[Axes], ax: style.Panels | None = None) -> None:
    """Put one legend under the panels, or into the first of those that are given, with the trained network first."""
    handles = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    labels = sorted(handles, key=lambda label: label != "trained")
    columns = len(labels) if len(labels) <= 4 else -(-len(labels) // 2)
    style.legend(figure, ax, [handles[label] for label in labels], labels, columns)
