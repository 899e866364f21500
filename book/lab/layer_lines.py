"""Curves over the layers of a model, with intervals: what several chapters draw."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plotting import style
from book.lab import averages

APART = 0.08  # of the axis: the least distance between two names


class Line(NamedTuple):
    """One curve over layers: ``values`` is ``(layer,)`` or ``(layer, 3)`` with the ends of an interval."""

    values: np.ndarray
    concept: str
    label: str
    dashes: str = "-"


def over_units(values: np.ndarray) -> np.ndarray:
    """Turn ``(unit, layer)`` into ``(layer, 3)``: mean over units (texts, sequences) and interval, nan for one unit.

    >>> over_units(np.array([[1.0], [2.0], [3.0]])).round(2).tolist()
    [[2.0, -0.48, 4.48]]
    """
    return np.array([averages.interval(column) for column in np.asarray(values).T.tolist()])


def by_depth(depth: int, shares: Sequence[float] = (0.0, 0.4, 1.0)) -> tuple[int, ...]:
    """Choose layers by their share of a model's depth: the first, one before the middle, the last; none twice.

    >>> by_depth(6), by_depth(12), by_depth(2)
    ((0, 2, 5), (0, 4, 11), (0, 1))
    """
    return tuple(sorted({round(share * (depth - 1)) for share in shares}))


@style.in_style
def lines(
    panels: Mapping[str, list[Line]],
    ylabels: list[str],
    *,
    level: tuple[float | list[float], str] | None = None,
    size: str = "wide",
    ax: style.Panels | None = None,
) -> Figure:
    """Draw curves over layers, a panel a title, with intervals; ``level`` is a line (or one a panel) and its label.

    Where no curve goes below 0 the axis begins there: an interval that reaches further says no more about a share.
    """
    _check_looks([line for curves in panels.values() for line in curves])
    figure, axes = style.panels(ax, 1, len(panels), size=size)
    for k, (panel, ylabel, (title, curves)) in enumerate(zip(axes[0], ylabels, panels.items(), strict=True)):
        layers = _draw(panel, curves)
        if level is not None:
            panel.axhline(
                level[0][k] if isinstance(level[0], list) else level[0],
                label=level[1],
                color=style.COLOURS["highlight"],
                linestyle=":",
            )
        crowded = len(layers) * len(panels) > 30
        panel.set(xlabel="layer", title=title, ylabel=ylabel, xticks=layers[::2] if crowded else layers)
        negative = any(line.values.reshape(len(line.values), -1)[:, 0].min() < 0 for line in curves)
        panel.set_ylim(bottom=min(0, panel.get_ylim()[0]) if negative else 0)
    shown = {
        label: handle for panel in axes[0] for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    columns = len(shown) if len(shown) <= 4 else -(-len(shown) // 2)  # of two, so that a seed's curves share one
    style.legend(figure, ax, list(shown.values()), list(shown), columns)
    return figure


def _draw(panel: Axes, curves: Sequence[Line]) -> np.ndarray:
    """Draw curves with their intervals into a panel, and return the layers."""
    for line in curves:
        values = line.values if line.values.ndim == 2 else np.stack([line.values] * 3, 1)
        layers = np.arange(len(values))
        panel.fill_between(
            layers, values[:, 1], values[:, 2], color=style.COLOURS[line.concept], alpha=0.2, linewidth=0
        )
        panel.plot(layers, values[:, 0], line.dashes, marker="o", color=style.COLOURS[line.concept], label=line.label)
    return layers


def _check_looks(curves: Sequence[Line]) -> None:
    looks: dict[str, tuple[str, str]] = {}
    for line in curves:
        look = line.concept, line.dashes
        if line.label is not None and looks.setdefault(line.label, look) != look:
            raise ValueError(f"label {line.label!r} must name curves of one look, got {looks[line.label]} and {look}")


def name_ends(panel: Axes, ends: Mapping[str, tuple[float, str]], last: float, apart: float = APART) -> None:
    """Write names, in their colours, beside the ends of curves at ``last``.

    Where they would overlap they are moved until they are ``apart``, a share of the axis.
    """
    low, high = panel.get_ylim()
    apart *= high - low
    order = sorted(ends, key=lambda name: ends[name][0])
    at = np.array([ends[name][0] for name in order])
    for k in range(1, len(at)):
        at[k] = max(at[k], at[k - 1] + apart)
    at[-1] = min(at[-1], high - 0.03 * (high - low))
    for k in reversed(range(len(at) - 1)):
        at[k] = min(at[k], at[k + 1] - apart)
    for name, height in zip(order, at, strict=True):
        end, colour = ends[name]
        panel.annotate(name, (last, end), (last * 1.06, height), color=colour, va="center")
    panel.set_xlim(-0.3, last * 1.85)
