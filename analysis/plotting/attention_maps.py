"""Attention maps and their gates: small maps with what they do to values, real maps with what cells were read as."""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from analysis.plotting import style


def draw_gates(maps: Mapping[str, ArrayLike], values: ArrayLike) -> Figure:
    """Draw small maps by name, four in a line; beside each row of a map stands what it makes of the values.

    Parameters
    ----------
    maps
        Maps ``(query, key)`` whose rows sum to 1, arrays or tensors on the CPU.
    values
        One number per key, written above the keys.

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
    figure, axes = style.new(lines, min(4, len(maps)), size="wide" if lines < 3 else "tall", squeeze=False)
    for panel in axes.flat[len(maps) :]:
        panel.set_visible(False)
    for panel, (name, given) in zip(axes.flat, maps.items(), strict=False):
        weights = np.asarray(given, float)
        seaborn.heatmap(
            np.sqrt(weights), ax=panel, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1, cbar=False, linewidths=0.5, square=True
        )
        panel.set_title(name)
        panel.set_xticks(np.arange(len(numbers)) + 0.5, [f"{number:g}" for number in numbers])
        panel.set_yticks([])
        panel.tick_params(length=0)
        for row, made in enumerate(weights @ numbers):
            panel.text(len(numbers) + 0.3, row + 0.5, f"{made:.3g}", ha="left", va="center")
    return figure


def draw_readings(
    maps: Sequence[ArrayLike],
    cells: Sequence[ArrayLike],
    titles: Sequence[str],
    order: Sequence[str],
    tokens: Sequence[str],
) -> Figure:
    """Draw maps in pairs: the weights, and beside them the gate that each cell was read as.

    Parameters
    ----------
    maps, cells
        Maps ``(query, key)`` and the gate of each cell as ``GateReading.cells`` has it.
    titles
        One per map.
    order
        The names of the gates, ``gates.GATES``.
    tokens
        Of the sentence; every few of them are written on the left.

    Examples
    --------
    >>> maps, read = [np.eye(2)] * 2, [np.eye(2, dtype=int)] * 2
    >>> figure = draw_readings(maps, read, ["a", "b"], ["directional", "open"], "xy")
    >>> len(figure.axes)
    4
    """
    figure, axes = style.new(
        -(-len(maps) // 2), 4, size="page" if len(maps) > 6 else "tall" if len(maps) > 4 else "wide", squeeze=False
    )
    for panel in axes.flat[2 * len(maps) :]:
        panel.set_visible(False)
    pairs = [(np.asarray(attention), np.asarray(gate)) for attention, gate in zip(maps, cells, strict=True)]
    for i, ((attention, gate), title) in enumerate(zip(pairs, titles, strict=True)):
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
    name_gates(figure, [order[i] for i in np.unique(np.stack([gate for _, gate in pairs])) if i >= 0])
    return style.many_marks(figure)


def draw_cells(panel: Axes, cells: np.ndarray, order: Sequence[str]) -> None:
    """Paint each cell in the colour of its gate; what a query may not see stays white."""
    panel.imshow(
        np.ma.masked_less(cells, 0),
        cmap=ListedColormap([style.GATES[name] for name in order]),
        norm=BoundaryNorm(np.arange(len(order) + 1) - 0.5, len(order)),
    )


def name_gates(figure: Figure, names: Sequence[str]) -> None:
    """Put a legend of gates under a figure."""
    figure.legend(
        handles=[Patch(color=style.GATES[name], label=name) for name in names],
        loc="outside lower center",
        ncols=min(len(names), 5),
    )
