"""Attention maps and their gates: small maps with what they do to values, real maps with what cells were read as."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from analysis.plotting import style


@style.in_style
def draw_gates(
    maps: Mapping[str, ArrayLike], values: ArrayLike, *, ax: style.Panels | None = None, cmap: str | None = None
) -> Figure:
    """Draw small maps by name, four in a line; next to each row of a map is what it makes of the values.

    Parameters
    ----------
    maps
        Maps ``(query, key)`` whose rows sum to 1, arrays or tensors on the CPU.
    values
        One number per key, written above the keys.
    ax
        The panels to draw into, one for each that is drawn; default: a new figure.
    cmap
        The colours of the weights, by matplotlib's name.

    Returns
    -------
    Figure
        One panel per map. Brightness is the square root of the weight, so that a uniform row can be seen.

    Examples
    --------
    >>> even = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> figure = draw_gates({"all the same": even}, np.array([1, 3]))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['2', '2']
    """
    numbers, lines = np.asarray(values, float), -(-len(maps) // 4)
    size = "wide" if lines < 3 else "tall"
    figure, axes = style.panels(ax, lines, min(4, len(maps)), count=len(maps), size=size)
    hide(axes.flat[len(maps) :])
    for panel, (name, given) in zip(axes.flat, maps.items(), strict=False):
        weights = np.asarray(given, float)
        look = {"vmin": 0, "vmax": 1, "cbar": False, "linewidths": 0.5, "square": True}
        seaborn.heatmap(np.sqrt(weights), ax=panel, cmap=cmap or style.WEIGHT_CMAP, **look)
        panel.set_title(name)
        panel.set_xticks(np.arange(len(numbers)) + 0.5, [f"{number:g}" for number in numbers])
        panel.set_yticks([])
        panel.tick_params(length=0)
        for row, made in enumerate(weights @ numbers):
            panel.text(len(numbers) + 0.3, row + 0.5, f"{made:.3g}", ha="left", va="center")
    return figure


@style.in_style
def draw_readings(
    maps: Sequence[ArrayLike],
    cells: Sequence[ArrayLike],
    titles: Sequence[str],
    order: Sequence[str],
    tokens: Sequence[str],
    *,
    ax: style.Panels | None = None,
    cmap: str | None = None,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw maps in pairs: the weights, and next to them the gate that each cell was read as.

    Parameters
    ----------
    maps, cells
        Maps ``(query, key)`` and the gate of each cell as ``GateReading.cells`` has it.
    order
        The names of the gates, ``gates.GATES``.
    tokens
        Tokens of the sentence; every few of them are written on the left.
    ax
        The panels to draw into, two for each map; default: a new figure.
    cmap
        The colours of the weights, by matplotlib's name.
    colours
        Colours of the gates, by name.

    Examples
    --------
    >>> maps, read = [np.eye(2)] * 2, [np.eye(2, dtype=int)] * 2
    >>> figure = draw_readings(maps, read, ["a", "b"], ["directional", "open"], "xy")
    >>> len(figure.axes)
    4
    """
    size = "page" if len(maps) > 6 else "tall" if len(maps) > 4 else "wide"
    figure, axes = style.panels(ax, -(-len(maps) // 2), 4, count=2 * len(maps), size=size)
    hide(axes.flat[2 * len(maps) :])
    pairs = [(np.asarray(attention), np.asarray(gate)) for attention, gate in zip(maps, cells, strict=True)]
    for i, ((attention, gate), title) in enumerate(zip(pairs, titles, strict=True)):
        left, right = axes[i // 2, 2 * (i % 2)], axes[i // 2, 2 * (i % 2) + 1]
        left.imshow(attention, cmap=cmap or style.WEIGHT_CMAP, vmin=0, vmax=np.quantile(attention, 0.99))
        draw_cells(right, gate, order, colours)
        if len(names := np.unique(gate)) == 1:  # an empty panel would look like a mistake
            right.text(0.5, 0.5, f"all {order[names[0]]}", transform=right.transAxes, ha="center", va="center")
        left.set_title(title, loc="left")
        for panel in (left, right):
            panel.set(xticks=[], yticks=[])
        if i % 2 == 0:
            every = max(1, len(tokens) // 8)
            left.set_yticks(range(0, len(tokens), every), [style.literal(token) for token in tokens[::every]])
    read = np.unique(np.stack([gate for _, gate in pairs]))
    name_gates(figure, [order[i] for i in read if i >= 0], colours, ax)
    return style.many_marks(figure) if ax is None else figure


def hide(panels: Iterable[Axes | None]) -> None:
    """Hide panels that nothing is drawn into."""
    for panel in panels:
        if panel is not None:
            panel.set_visible(False)


def draw_cells(panel: Axes, cells: np.ndarray, order: Sequence[str], colours: Mapping[str, str] | None = None) -> None:
    """Paint each cell in the colour of its gate; what a query may not see stays white."""
    panel.imshow(
        np.ma.masked_less(cells, 0),
        cmap=ListedColormap([(colours or style.GATES)[name] for name in order]),
        norm=BoundaryNorm(np.arange(len(order) + 1) - 0.5, len(order)),
    )


def name_gates(
    figure: Figure, names: Sequence[str], colours: Mapping[str, str] | None = None, ax: style.Panels | None = None
) -> None:
    """Put a legend of gates under a figure, or into the first of the panels that are given."""
    style.legend(figure, ax, [Patch(color=(colours or style.GATES)[name]) for name in names], names, min(len(names), 5))
