"""Tables of a page: a frame and its caption, shown as a table of HTML and recorded as text."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FORM = ".2f"
_RAISED = re.compile(r"(?<!\w)([A-Za-z])([_^])(\w+)(?!\w)")
_MARKS = {"_": "sub", "^": "sup"}


@dataclass(frozen=True)
class Table:
    """What :func:`table` returns: cells as text, a header for each column, and the caption."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the first cell of a row names it

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{in_html(text)}</th>' for text in self.header)
        rows = (
            f'<tr><th scope="row">{in_html(name)}</th>{"".join(f"<td>{in_html(text)}</td>" for text in cells)}</tr>'
            for name, *cells in self.rows
        )
        return (
            f'<table class="dataframe"><caption>{in_html(self.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{chr(10).join(rows)}\n</tbody></table>"
        )

    def __repr__(self) -> str:
        """Write the caption, and a line per row."""
        lines = [" | ".join(cells).rstrip() for cells in (self.header, *self.rows)]
        return "\n".join([self.caption, *lines])


def table(frame: "pd.DataFrame", caption: str, form: str | Mapping[str, str] = FORM) -> Table:
    """Make a table for a page of a frame, whose index names the rows.

    Parameters
    ----------
    frame
        Numbers and texts. The name of the index heads the first column.
    caption
        What the table shows, in a sentence or two.
    form
        How floats are written, for all columns or by column; the others are written with two decimals. Whole numbers
        are written as they are, truth values as yes and no, and missing values as nothing.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"b_Q": [0.5, 0.25], "heads": [12, 8]}, index=pd.Index(["GPT-2", "mini"], name="model"))
    >>> table(frame, "The share of b_Q.", {"b_Q": ".0%"})
    The share of b_Q.
    model | b_Q | heads
    GPT-2 | 50% | 12
    mini | 25% | 8
    """
    if not caption.strip():
        raise ValueError("caption must say what the table shows; got an empty text")
    forms = dict.fromkeys(frame.columns, form) if isinstance(form, str) else dict(form)
    if unknown := set(forms) - set(frame.columns):
        raise ValueError(
            f"form names columns that the frame does not have: {sorted(map(str, unknown))}; it has "
            f"{list(map(str, frame.columns))}"
        )
    columns = [[written(value, forms.get(name, FORM)) for value in frame[name]] for name in frame.columns]
    rows = zip(map(str, frame.index), *columns, strict=True)
    return Table(caption, (frame.index.name or "", *map(str, frame.columns)), tuple(rows))


def written(value: object, form: str = FORM) -> str:
    """Write the value of one cell.

    >>> written(0.126), written(50257), written(True), written(float("nan")), written("MiniLM"), written(-0.001)
    ('0.13', '50,257', 'yes', '', 'MiniLM', '0.00')
    """
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{value:,}"
    if not isinstance(value, Real):
        return str(value)
    return format(float(value), f"z{form}" if form.startswith(".") else form).replace("-", "−")  # z: no minus before 0


def in_html(text: str) -> str:
    """Write a text in HTML, with names such as ``W_K`` and ``T^pp`` as formulas are set.

    >>> in_html("b_Q and T^pp, < 1")
    '<i>b<sub>Q</sub></i> and <i>T<sup>pp</sup></i>, &lt; 1'
    """
    return _RAISED.sub(_raised, escape(text))


def _raised(match: re.Match) -> str:
    tag = _MARKS[match[2]]
    return f"<i>{match[1]}<{tag}>{match[3]}</{tag}></i>"
