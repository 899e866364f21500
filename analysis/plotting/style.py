"""The book's look: one style sheet, named sizes, one colour per concept, two colour maps. Nothing else sets these.

Importing this module puts the style sheet into effect, so that every artist a figure function makes obeys it.
"""

import io
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure

SHEET = Path(__file__).with_name("book.mplstyle")
matplotlib.style.use(SHEET)

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
# The rungs of the ladder of controls (analysis.models.controls), in one look everywhere: colour and dashes.
RUNGS = {
    "random": ("#999999", "-"),
    "random, queries and keys as large": ("#CC79A7", "-."),
    "random, as large": ("#E69F00", "--"),
    "permuted": ("#009E73", ":"),
}
# Verdicts, as on the pages.
VERDICTS = {
    "reproduced": "#1b6b36",
    "corrected": "#8e5aa8",
    "conditional": "#e0a030",
    "holds on a stand-in": "#2b7a8c",
    "not reproduced": "#a11c33",
    "not testable": "#8a97a8",
    "open": "#e4e4e4",
}
SCORE_CMAP = "PRGn"  # purple negative, green positive, white at 0
POSITION_CMAP = "viridis"  # positions in order
WEIGHT_CMAP = "cividis"  # attention, from 0 to a stated limit


class BookFigure(Figure):
    """A figure that a notebook shows as SVG without pyplot and its state."""

    def _repr_svg_(self) -> str:
        buffer = io.StringIO()
        self.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        """Carry the PNG and the numbers behind the figure, which the page offers for download."""
        from analysis.plotting.figure_data import MIME, bundle

        return {MIME: bundle(self)}


def new(rows: int = 1, columns: int = 1, *, size: str = "wide", **kwargs) -> tuple[BookFigure, np.ndarray | Axes]:
    """Start a figure in the book's style, without pyplot's state.

    Parameters
    ----------
    size
        A key of :data:`SIZES`.
    kwargs
        Passed to ``Figure.subplots`` (``sharex``, ``width_ratios``, ...).
    """
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    figure = BookFigure(figsize=SIZES[size])
    return figure, figure.subplots(rows, columns, **kwargs)


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
