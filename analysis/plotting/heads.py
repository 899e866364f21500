"""One number per head: a dot for each head of a model over its layers, the control's heads in grey next to them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from analysis.plotting import style

APART = 0.14


@style.in_style
def draw_heads(
    trained: np.ndarray | Tensor,
    control: np.ndarray | Tensor,
    *,
    title: str,
    ylabel: str,
    control_name: str = "untrained",
    ax: Axes | None = None,
    colours: tuple[str, str] = (style.COLOURS["trained"], style.COLOURS["control"]),
) -> Figure:
    """Draw a dot for each head, layer by layer: trained heads in colour, those of the control in grey to their right.

    Both are ``(layer, head)``. They are drawn into ``ax``, if it is given, and its figure is returned; ``colours`` are
    those of the trained heads and of the control.

    Raises
    ------
    ValueError
        If the two are not tables of the same layers and heads, or hold entries that are not finite.

    Examples
    --------
    >>> trained, control = np.array([[0.1, 0.9]]), np.array([[0.8, 0.8]])
    >>> figure = draw_heads(trained, control, title="They differ.", ylabel="evenness")
    >>> [line.get_ydata().tolist() for line in figure.axes[0].lines]
    [[0.1, 0.9], [0.8, 0.8]]
    """
    tables = np.asarray(trained, dtype=float), np.asarray(control, dtype=float)
    if tables[0].ndim != 2 or tables[0].shape != tables[1].shape:
        raise ValueError(f"trained and control must be (layer, head) alike, got {tables[0].shape}, {tables[1].shape}")
    if not all(np.isfinite(table).all() for table in tables):
        raise ValueError("trained and control must have finite entries (no nan or inf)")
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    layers, heads = tables[0].shape
    for table, colour, aside in zip(tables, colours, (-APART, APART), strict=True):
        at = np.repeat(np.arange(layers) + aside, heads)
        panel.plot(at, table.ravel(), "o", color=colour, alpha=0.75, clip_on=False)
    panel.set(title=title, ylabel=ylabel, xlabel="layer", xticks=range(layers), xlim=(-0.5, layers - 0.3))
    _label_last(panel, tables, ("trained", control_name), colours)
    return figure


def _label_last(
    panel: Axes, tables: tuple[np.ndarray, np.ndarray], names: tuple[str, str], colours: tuple[str, str]
) -> None:
    """Name the two kinds of dots next to those of the last layer, the higher name above."""
    middles = [float(np.median(table[-1])) for table in tables]
    for k, colour in enumerate(colours):
        above = middles[k] > middles[1 - k] or (middles[k] == middles[1 - k] and k == 1)
        edge = tables[k][-1].max() if above else tables[k][-1].min()
        aside = (-APART, APART)[k]
        panel.annotate(
            names[k],
            (len(tables[k]) - 1 + aside, edge),
            xytext=(0, 6 if above else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            color=colour,
        )
