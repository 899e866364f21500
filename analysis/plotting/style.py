"""The book's look: one style sheet, named sizes, one colour per concept, two colour maps. Nothing else sets these.

Importing this module changes nothing. A figure function draws under the style sheet and leaves the settings of
matplotlib as they were; only who starts a figure to draw into by hand (`new`) has the sheet in effect from then on.
"""

import functools
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import matplotlib.style
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from torch import Tensor

SHEET = Path(__file__).with_name("book.mplstyle")
Panels = Axes | Sequence[Axes] | np.ndarray
"""Where to draw: one panel, or as many as a figure has.

:meta hide-value:
"""
Given, Drawn = ParamSpec("Given"), TypeVar("Drawn")

# Inches; a page is about 7.2 wide.
SIZES = {
    "wide": (7.2, 3.2),
    "half": (3.6, 2.8),
    "square": (4.6, 4.4),
    "tall": (7.2, 5.6),
    "page": (7.2, 8.4),
    "strip": (7.2, 2.0),
}

# One colour per concept in every chapter; told apart by colour-blind readers (after Okabe and Ito).
COLOURS = {
    "content": "#0072B2",
    "semi_bias": "#D55E00",
    "row_constant": "#999999",
    "positional": "#009E73",
    "token": "#CC79A7",
    "trained": "#0072B2",
    "control": "#999999",
    "record": "#E69F00",
    "uniform": "#56B4E9",
    "highlight": "#D55E00",
    "muted": "#BBBBBB",
    "ink": "#222222",
    "paper": "#FFFFFF",
}
# The gates of a BERT and what is left of a map; patterns are strong, the rest is pale.
GATES = {
    "directional": "#D55E00",
    "open": "#0072B2",
    "backward": "#009E73",
    "forward": "#8A5FBF",
    "cluster": "#E69F00",
    "instance": "#CC2A6A",
    "inverse directional": "#7A4B20",
    "closed": "#E4E4E4",
    "residual": "#A8A8A8",
}
SEEDS = "-", "--", ":"  # dashes, one a seed
# The control levels (analysis.models.controls), in one look everywhere: colour and dashes.
LEVELS = {
    "random": ("#999999", "-"),
    "random, W_Q and W_K as large": ("#CC79A7", "-."),
    "random, as large": ("#E69F00", "--"),
    "permuted": ("#009E73", ":"),
}
# Verdicts, as on the pages.
VERDICTS = {
    "reproduced": "#1b6b36",
    "corrected": "#8e5aa8",
    "conditional": "#e0a030",
    "holds on a stand-in": "#2b7a8c",
    "fails on a stand-in": "#b8763a",
    "not reproduced": "#a11c33",
    "not testable": "#8a97a8",
    "open": "#e4e4e4",
}
SCORE_CMAP = "PRGn"  # purple negative, green positive, white at 0
POSITION_CMAP = "viridis"  # positions in order
WEIGHT_CMAP = "cividis"  # attention, from 0 to a stated limit


def look_of(network: str) -> dict[str, str]:
    """Return colour, dashes and label of a network's curve: those of its control level, or of a trained one.

    >>> look_of("random"), look_of("MiniLM")["color"] == COLOURS["trained"]
    ({'color': '#999999', 'linestyle': '-', 'label': 'random'}, True)
    """
    colour, dashes = LEVELS.get(network, (COLOURS["trained"], "-"))
    return {"color": colour, "linestyle": dashes, "label": network}


class BookFigure(Figure):
    """A figure that a notebook shows as SVG without pyplot and its state; saved as PDF, its fonts are TrueType."""

    def savefig(self, *args, **kwargs) -> None:
        """Save as :meth:`matplotlib.figure.Figure.savefig` does, under the style sheet: ticks are made only then."""
        with matplotlib.style.context(SHEET):
            super().savefig(*args, **kwargs)

    def _repr_svg_(self) -> str:
        buffer = io.StringIO()
        self.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        """Carry the PNG and the numbers behind the figure, which the page offers for download."""
        from analysis.plotting.figure_data import MIME, bundle

        return {MIME: bundle(self)}


def new(rows: int = 1, columns: int = 1, *, size: str = "wide", **kwargs) -> tuple[BookFigure, np.ndarray | Axes]:
    """Start a figure in the book's style, without pyplot's state, and put the style in effect for what is drawn.

    Parameters
    ----------
    size
        A key of :data:`SIZES`.
    """
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    matplotlib.style.use(SHEET)
    figure = BookFigure(figsize=SIZES[size])
    return figure, figure.subplots(rows, columns, **kwargs)


def in_style(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Let a figure function draw under the style sheet, or, where ``ax`` is given, under its caller's settings.

    Either way matplotlib's settings are afterwards what they were. Tensors that no array can be made of (of half
    precision, with a gradient or on another device) are given to the function as such that can.
    """

    @functools.wraps(draw)
    def drawn(*args: Given.args, **kwargs: Given.kwargs) -> Drawn:
        with matplotlib.rc_context():
            args, kwargs = _drawable(args), _drawable(kwargs)
            return draw(*args, **kwargs)

    return drawn


def _drawable(value):
    """Return what is given with tensors of which an array can be made in the place of others."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        return {key: _drawable(part) for key, part in value.items()}
    return type(value)(_drawable(part) for part in value) if type(value) in (list, tuple) else value


def literal(text: str) -> str:
    r"""Return a text in which matplotlib reads no formula, as in tokens with dollar signs.

    >>> print(literal("$$"))
    \$\$
    """
    return text.replace("$", r"\$")


def panels(
    ax: Panels | None, rows: int, columns: int, *, count: int | None = None, **kwargs
) -> tuple[Figure, np.ndarray]:
    """Return a figure and its axes, ``(rows, columns)``: new ones as `new` makes them, or those that are given.

    Parameters
    ----------
    ax
        The panels to draw into, or none.
    count
        How many of them are drawn into, where that is fewer than rows times columns.

    Examples
    --------
    >>> figure = Figure()
    >>> panels(figure.add_subplot(), 1, 1)[0] is figure
    True
    """
    if ax is None:
        return new(rows, columns, squeeze=False, **kwargs)
    given, due = np.asarray(ax, dtype=object).ravel(), count or rows * columns
    if len(given) != due:
        raise ValueError(f"ax must hold {due} panels, one for each that is drawn, got {len(given)}")
    grid = np.full(rows * columns, None, dtype=object)
    grid[:due] = given
    return given[0].figure, grid.reshape(rows, columns)


def legend(figure: Figure, ax: Panels | None, handles: Sequence, labels: Sequence[str], columns: int) -> None:
    """Put one legend under a figure, or into the first of the panels that are given."""
    if ax is None:
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    else:
        np.asarray(ax, dtype=object).ravel()[0].legend(handles, labels)


def centred(values: np.ndarray, limit: float | None = None) -> Normalize:
    """Return the scale for scores: 0 in the middle of the map, the same distance to both ends."""
    limit = float(np.nanmax(np.abs(values))) if limit is None else limit
    return TwoSlopeNorm(0, -limit or -1, limit or 1)


def many_marks(figure: Figure) -> Figure:
    """Rasterise the data of a figure with many marks, so that its SVG stays small; text stays text."""
    for axes in figure.axes:
        for artist in (*axes.collections, *axes.images, *axes.lines):
            artist.set_rasterized(True)
    return figure
