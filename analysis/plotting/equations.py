"""Small matrices written out as an equation: each entry as a number in a coloured cell, a sign between two matrices.

What belongs here: pictures of cases that fit on paper. What does not: maps of real heads, whose cells hold no number.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis.plotting import style

LARGEST = 8
"""Rows and columns of a matrix whose entries can still be read."""
DENOMINATOR = 100
KINDS = ("weights", "scores")


def draw_equation(
    matrices: Sequence[Float[np.ndarray, "row column"]],
    signs: str,
    titles: Sequence[str],
    *,
    kind: str = "weights",
    rows: Sequence[str] = (),
    columns: Sequence[Sequence[str]] = (),
) -> Figure:
    """Draw small matrices side by side, as in ``W X = Y`` or ``S = A + B``, on one scale.

    Parameters
    ----------
    matrices
        Arrays or tensors; entries near a fraction of whole numbers are written as that fraction.
    signs
        One character between every two matrices; a blank leaves a gap.
    kind
        ``"weights"`` colours from 0 to 1, ``"scores"`` from negative to positive, with white at 0.
    rows, columns
        Names of the rows, the same for all matrices, and for each matrix those of its columns; default: none.

    Raises
    ------
    ValueError
        If there is no matrix, one is no matrix, larger than 8 x 8 or not finite, or signs, titles, names or the kind
        do not fit.

    Examples
    --------
    >>> W = np.array([[1, 0], [0.5, 0.5]])
    >>> figure = draw_equation([W, W @ W], "=", ["weights", "twice"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '0', '1/2', '1/2']
    """
    tables = [np.asarray(matrix, dtype=float) for matrix in matrices]
    _check(tables, signs, titles, kind, rows, columns)
    widths = [table.shape[1] for table in tables]
    ratios = [part for width in widths for part in (width, 0.5)][:-1]
    figure, axes = style.new(1, len(ratios), size="strip", width_ratios=ratios)
    everything = np.concatenate([table.ravel() for table in tables])
    scale = Normalize(0, 1) if kind == "weights" else style.centred(everything)
    for k, (panel, table, title) in enumerate(zip(axes[::2], tables, titles, strict=True)):
        _draw_matrix(panel, table, scale, style.WEIGHT_CMAP if kind == "weights" else style.SCORE_CMAP)
        panel.set_title(title)
        panel.set_xticks(range(table.shape[1]) if len(columns) else [], labels=columns[k] if len(columns) else [])
        panel.set_yticks(range(table.shape[0]) if len(rows) else [], labels=rows if len(rows) else [])
    for panel, sign in zip(axes[1::2], signs, strict=True):
        panel.set_axis_off()
        panel.text(0.5, 0.5, sign, ha="center", va="center", transform=panel.transAxes, size="xx-large")
    return figure


def _check(tables, signs, titles, kind, rows, columns) -> None:
    if not tables:
        raise ValueError("matrices must hold at least one matrix, got none")
    for table in tables:
        if table.ndim != 2 or not 1 <= min(table.shape) <= max(table.shape) <= LARGEST:
            raise ValueError(f"matrices must be (row, column) of at most {LARGEST} x {LARGEST}, got {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError("matrices must have finite entries (no nan or inf)")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    due = {"signs": (signs, len(tables) - 1), "titles": (titles, len(tables))}
    due |= {"columns": (columns, len(tables))} if len(columns) else {}
    for name, (given, count) in due.items():
        if len(given) != count:
            raise ValueError(f"{name} must be {count} for {len(tables)} matrices, got {len(given)}")
    for k, table in enumerate(tables):
        for name, given, size in (("rows", rows, len(table)), ("columns", columns and columns[k], table.shape[1])):
            if len(given) not in (0, size):
                raise ValueError(f"{name} must name the {size} of matrix {k}, got {len(given)}")


def _draw_matrix(panel: Axes, table: np.ndarray, scale: Normalize, colours: str) -> None:
    shown = panel.imshow(table, cmap=colours, norm=scale)
    for (row, column), value in np.ndenumerate(table):
        dark = np.dot(shown.cmap(scale(value))[:3], (0.299, 0.587, 0.114)) < 0.5
        ink = style.COLOURS["paper" if dark else "ink"]
        panel.text(column, row, write_number(value), ha="center", va="center", color=ink)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)


def write_number(value: float) -> str:
    """Write a whole number or a fraction of small whole numbers as such, anything else with two decimals.

    >>> [write_number(x) for x in (3.0, 1 / 3, -0.5, 0.1234)]
    ['3', '1/3', '−1/2', '0.12']
    """
    fraction = Fraction(float(value)).limit_denominator(DENOMINATOR)
    near = abs(float(fraction) - value) < 1e-6 * max(1.0, abs(value))
    return (str(fraction) if near else f"{value:.2f}").replace("-", "\N{MINUS SIGN}")
