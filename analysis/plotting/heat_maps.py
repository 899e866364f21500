"""Heat maps that stories draw: attention over the words of a text, and scores of all heads along a sequence.

Drawn with seaborn, in the book's colours; maps in one row share a scale.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn
from jaxtyping import Float
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from analysis.plotting import style

MANY = 48
"""From more tokens on a new figure is taller, and its cells are drawn as pixels."""
PITCH = 0.85
"""How far apart tokens are written at least, in heights of a line."""
CELLS = 512
"""How many cells stand along an axis, at most: of longer texts, one cell shows the largest weight of several."""


@style.in_style
def draw_maps(
    maps: Mapping[str, Float[Tensor | np.ndarray, "query key"]] | Float[Tensor | np.ndarray, "head query key"],
    tokens: Sequence[str],
    *,
    queries: Sequence[str] | None = None,
    ax: style.Panels | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw attention maps in a row under their names, on one scale; a key without any weight stays blank.

    The scale runs from 0 to the largest weight, with more colours for small weights than for large ones. Of more
    tokens than there is room for, every few are written. Of more than 512, each cell shows the largest weight of
    several, and positions are written.

    Parameters
    ----------
    maps
        By title; arrays or tensors of ``(query, key)``. Or the heads of a layer on one text, ``(head, query, key)``,
        which are titled by their numbers.
    tokens
        Label of each position.
    queries
        Label of each query, for a window of a map or a single row; default: the tokens.
    ax
        The panels to draw into, one for each that is drawn; default: a new figure.
    cmap
        The colours of the weights, by matplotlib's name.

    Raises
    ------
    ValueError
        If a map has not one row for each query and one column for each token, or there is none.

    Examples
    --------
    >>> even = np.full((2, 2), 0.5)
    >>> figure = draw_maps({"head 0": np.eye(2), "head 1": even}, ["a", "b"])
    >>> [axes.get_title(loc="left") for axes in figure.axes[:2]]
    ['head 0', 'head 1']
    >>> last = draw_maps({"head 1": even[1:]}, ["a", "b"], queries=["b"])
    """
    named = maps if isinstance(maps, Mapping) else {f"head {head}": values for head, values in enumerate(maps)}
    drawn = {name: np.asarray(values) for name, values in named.items()}
    rows = tokens if queries is None else queries
    if not drawn:
        raise ValueError("there is no map to draw")
    for name, values in drawn.items():
        if values.shape != (len(rows), len(tokens)):
            raise ValueError(
                f"the map {name!r} must be of {len(rows)} x {len(tokens)} tokens, got {values.shape}: queries=... "
                "names the rows where they are not all the tokens"
            )
    # One scale for all maps; small weights get more of the colours.
    figure, axes = style.panels(ax, 1, len(drawn), sharey=True, size="tall" if len(rows) > MANY else "wide")
    scale = PowerNorm(0.5, 0, max(values.max() for values in drawn.values()))
    for panel, (name, values) in zip(axes[0], drawn.items(), strict=True):
        cells = _largest(values)
        seaborn.heatmap(
            cells,
            mask=cells == 0,
            ax=panel,
            norm=scale,
            cmap=cmap or style.WEIGHT_CMAP,
            square=len(rows) == len(tokens),
            cbar=False,
            xticklabels=False,
            yticklabels=False,
            rasterized=cells.size > MANY**2,
        )
        # As many labels as there is room for.
        panel.xaxis.set_tick_params(rotation=90)
        size = panel.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        least = min(size.width, size.height)
        _name(panel.xaxis, tokens, least if len(rows) == len(tokens) else size.width)
        _name(panel.yaxis, rows, least if len(rows) == len(tokens) else size.height)
        panel.set_title(name, loc="left")
    axes[0, 0].set_ylabel("the query")
    label = "attention weight" if max(len(rows), len(tokens)) <= CELLS else "largest weight in a cell"
    figure.colorbar(axes[0, 0].collections[-1], ax=axes.ravel().tolist(), label=label, shrink=0.7)
    return figure


def _largest(values: np.ndarray) -> np.ndarray:
    """Return at most :data:`CELLS` cells a side, each the largest weight of those that it stands for."""
    for axis, size in enumerate(values.shape):
        values = np.maximum.reduceat(values, np.arange(0, size, -(-size // CELLS)), axis)
    return values


def _name(axis: Axis, tokens: Sequence[str], inches: float) -> None:
    """Write as many tokens along an axis as there is room for; positions where a cell stands for several tokens."""
    several = -(-len(tokens) // CELLS)
    if several > 1:
        places = [int(place) for place in MaxNLocator(8, integer=True).tick_values(0, len(tokens) - 1)]
        places = [place for place in places if 0 <= place < len(tokens)]
        labels = [f"{place:,}" for place in places]
    else:
        room = max(1, int(72 * inches / (PITCH * rcParams["font.size"])))
        places = range(0, len(tokens), -(-len(tokens) // room))
        labels = [style.literal(tokens[place]) for place in places]
    axis.set_ticks([place // several + 0.5 for place in places], labels)


@style.in_style
def draw_scores(
    scores: Float[Tensor | np.ndarray, "head position"],
    title: str,
    label: str = "nats",
    *,
    ax: Axes | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw scores of heads along a sequence, one row per head: purple below 0, green above.

    The scale ends where nine of ten scores are within it, so that faint heads are visible next to strong ones. They are
    drawn into ``ax``, if it is given, in the colours ``cmap``, and the figure is returned.

    Examples
    --------
    >>> figure = draw_scores(np.array([[-1.0, 1.0], [2.0, -2.0]]), "two heads")
    >>> figure.axes[0].get_ylabel()
    'head'
    """
    values = np.asarray(scores)
    figure, [[panel]] = style.panels(ax, 1, 1)
    seaborn.heatmap(
        values,
        ax=panel,
        norm=style.centred(values, float(np.quantile(np.abs(values), 0.9))),
        cmap=cmap or style.SCORE_CMAP,
        rasterized=True,
        xticklabels=max(1, values.shape[1] // 8),
        cbar_kws={"label": label, "extend": "both"},
    )
    panel.set(xlabel="position of the key", ylabel="head")
    panel.set_title(title, loc="left")
    panel.tick_params(axis="y", rotation=0)
    return figure
