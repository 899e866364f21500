"""Matrices as an equation: coloured maps, a sign between two; small ones with their entries written into the cells."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from analysis.plotting import style

LARGEST = 8
"""Rows and columns of a matrix whose entries are written out."""
DENOMINATOR = 100
GAP = 0.2
"""Room for a sign, over the widest matrix."""
KINDS = ("weights", "scores")


@style.in_style
def draw_equation(
    matrices: Sequence[np.ndarray | Tensor],
    signs: str,
    titles: Sequence[str],
    *,
    kind: str = "weights",
    rows: Sequence[str] = (),
    columns: Sequence[Sequence[str]] = (),
    ax: style.Panels | None = None,
    cmap: str | None = None,
) -> Figure:
    """Draw matrices side by side, as in ``W X = Y`` or ``S = A + B``, on one scale.

    Parameters
    ----------
    matrices
        Each ``(row, column)``. Entries of those of at most 8 x 8 are written into their cells, as a fraction where they
        are near one of whole numbers.
    signs
        One character between every two matrices; a blank leaves a gap.
    kind
        ``"weights"`` colours from 0 to 1, ``"scores"`` from negative to positive, with white at 0.
    rows, columns
        Names of the rows, left of the first matrix, and for each matrix those of its columns.
    ax
        The panels to draw into, one for each matrix and one for each sign, in their order; default: a new figure.
    cmap
        The colours of the entries, by matplotlib's name; default: those of the kind.

    Raises
    ------
    ValueError
        If there is no matrix, one is not a matrix or not finite, or signs, titles, names or the kind do not fit.

    Examples
    --------
    >>> W = np.array([[1, 0], [0.5, 0.5]])
    >>> figure = draw_equation([W, W @ W], "=", ["weights", "twice"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '0', '1/2', '1/2']
    """
    tables = [np.asarray(matrix, dtype=float) for matrix in matrices]
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    _check_matrices(tables)
    _check_words(tables, rows, signs=signs, titles=titles, columns=columns)
    widths = [table.shape[1] for table in tables]
    ratios = [part for width in widths for part in (width, GAP * max(widths))][:-1]
    figure, axes = style.panels(ax, 1, len(ratios), size="strip", width_ratios=ratios)
    everything = np.concatenate([table.ravel() for table in tables])
    cmap = cmap or (style.WEIGHT_CMAP if kind == "weights" else style.SCORE_CMAP)
    scale = Normalize(0, 1) if kind == "weights" else style.centred(everything)
    for k, (panel, table, title) in enumerate(zip(axes[0, ::2], tables, titles, strict=True)):
        _draw_matrix(panel, table, scale, cmap)
        panel.set_title(title)
        below, beside = columns[k] if columns else "", rows if k == 0 else ""
        panel.set_xticks(range(len(below)), labels=below)
        panel.set_yticks(range(len(beside)), labels=beside)
    for panel, sign in zip(axes[0, 1::2], signs, strict=True):
        panel.set_axis_off()
        panel.text(0.5, 0.5, sign, ha="center", va="center", transform=panel.transAxes, size="xx-large")
    return figure


def _check_matrices(tables: list[np.ndarray]) -> None:
    if not tables:
        raise ValueError("matrices must hold at least one matrix, got none")
    for table in tables:
        if table.ndim != 2 or not table.size:
            raise ValueError(f"matrices must be (row, column), each at least 1, got {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError("matrices must have finite entries (no nan or inf)")


def _check_words(tables: list[np.ndarray], rows: Sequence[str], **words: Sequence) -> None:
    """Raise for signs, titles and names that are not as many as the matrices need; names may be left out."""
    count = len(tables)
    for name, due in {"signs": count - 1, "titles": count, "columns": count if words["columns"] else 0}.items():
        if len(words[name]) != due:
            raise ValueError(f"{name} must be {due} for {count} matrices, got {len(words[name])}")
    for k, table in enumerate(tables):
        names = {"rows": (rows, 0), "columns": (words["columns"] and words["columns"][k], 1)}
        for name, (given, axis) in names.items():
            if len(given) not in (0, table.shape[axis]):
                raise ValueError(f"{name} must name the {table.shape[axis]} of matrix {k}, got {len(given)}")


def _draw_matrix(panel: Axes, table: np.ndarray, scale: Normalize, colours: str) -> None:
    shown = panel.imshow(table, cmap=colours, norm=scale)
    for (row, column), value in np.ndenumerate(table) if max(table.shape) <= LARGEST else ():
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
