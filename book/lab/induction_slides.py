"""The slides that build an induction head by hand: what they print, and a printed table beside a recomputed one.

Source: University of Maryland, "Induction Head Example" (after Michael Hahn); ledger I-14 to I-16 and I-20 to I-22.
Rows are the positions of the sequence ``! a b a c b``; tables of outputs have the columns E_0..E_5, P_0..P_5. What is
printed is compared with, and never used to compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

VOCABULARY = ("!", "a", "b", "c", "d", "e")
SEQUENCE = ("!", "a", "b", "a", "c", "b")

_EMBEDDINGS = """
    1 0 0 0 0 0  1 0 0 0 0 0
    0 1 0 0 0 0  0 1 0 0 0 0
    0 0 1 0 0 0  0 0 1 0 0 0
    0 1 0 0 0 0  0 0 0 1 0 0
    0 0 0 1 0 0  0 0 0 0 1 0
    0 0 1 0 0 0  0 0 0 0 0 1"""

_PRINTED = {
    "scores 1": """
        -100 -100 -100 -100 -100 -100
         100 -100 -100 -100 -100 -100
        -100  100 -100 -100 -100 -100
        -100 -100  100 -100 -100 -100
        -100 -100 -100  100 -100 -100
        -100 -100 -100 -100  100 -100""",
    "weights 1": """
        1 0 0 0 0 0
        1 0 0 0 0 0
        0 1 0 0 0 0
        0 0 1 0 0 0
        0 0 0 1 0 0
        0 0 0 0 1 0""",
    "output 1": """
        1 0 0 0 0 0  0 0 0 0 0 0
        0 1 0 0 0 0  1 0 0 0 0 0
        0 0 1 0 0 0  0 1 0 0 0 0
        0 1 0 0 0 0  0 0 1 0 0 0
        0 0 0 1 0 0  0 1 0 0 0 0
        0 0 1 0 0 0  0 0 0 1 0 0""",
    "scores 2": """
        0 100   0   0   0   0
        0   0 100   0 100   0
        0   0   0 100   0   0
        0   0 100   0 100   0
        0   0   0   0   0 100
        0   0   0 100   0   0""",
    "weights 2": """
        1 0 0 0 0 0
        0 0 0 0 0 0
        0 0 0 0 0 0
        0 0 1 0 0 0
        0 0 0 0 0 0
        0 0 0 1 0 0""",
    "output 2": """
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 1 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 1 0 0 0 0  0 0 0 0 0 0""",
}


def printed_tables() -> dict[str, Float[Tensor, "row column"]]:
    """Return the six printed tables, by the names in ``induction_readings.TABLES``.

    >>> [tuple(table.shape) for table in printed_tables().values()]
    [(6, 6), (6, 6), (6, 12), (6, 6), (6, 6), (6, 12)]
    """
    return {name: _read(text) for name, text in _PRINTED.items()}


def printed_embeddings() -> Float[Tensor, "position model"]:
    """Return the printed input, ``E`` beside ``P`` (ledger I-02).

    >>> printed_embeddings().sum(1)
    tensor([2., 2., 2., 2., 2., 2.], dtype=torch.float64)
    """
    return _read(_EMBEDDINGS)


def _read(text: str) -> Float[Tensor, "row column"]:
    rows = [[float(cell) for cell in line.split()] for line in text.strip().splitlines()]
    return torch.tensor(rows, dtype=torch.float64)


def encode(symbols: str | Sequence[str]) -> Int[Tensor, " position"]:
    """Turn symbols of the slides (a sequence, or a string with spaces between) into token numbers.

    >>> encode("! a b a")
    tensor([0, 1, 2, 1])
    """
    symbols = symbols.split() if isinstance(symbols, str) else symbols
    return torch.tensor([VOCABULARY.index(symbol) for symbol in symbols], dtype=torch.long)


CELL = "padding: 0.15em 0.5em; text-align: right"
CAPTION = "caption-side: top; text-align: left; color: inherit; white-space: nowrap"
PAIR = (
    "display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; overflow-x: auto; font-size: 0.85em; "
    "margin-bottom: 1.2rem"
)


@dataclass(frozen=True)
class Compared:
    """A printed and a recomputed table side by side; cells that differ are marked. Shown as HTML, or in words."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    printed: np.ndarray
    computed: np.ndarray

    @property
    def differing(self) -> list[tuple[str, str, float, float]]:
        """Return row, column, printed and computed value of each cell that differs by more than rounding."""
        return [
            (f"{self.rows[i]} {i}", self.columns[j], self.printed[i, j], self.computed[i, j])
            for i, j in np.argwhere(np.abs(self.printed - self.computed) > 1e-9)
        ]

    def __repr__(self) -> str:
        cells = "; ".join(f"row {r}, column {c}: printed {p:g}, computed {v:g}" for r, c, p, v in self.differing)
        count = len(self.differing)
        said = "1 cell differs" if count == 1 else f"{count} cells differ"
        return f"{self.title}: {said}{': ' if cells else ''}{cells}"

    def _repr_html_(self) -> str:
        count = len(self.differing)
        said = ("no cell differs", "1 cell differs, marked", f"{count} cells differ, marked")[min(count, 2)]
        both = self._table(f"{self.title}, printed", self.printed, False) + self._table(
            f"{self.title}, recomputed: {said}", self.computed, True
        )
        return f'<div style="{PAIR}">{both}</div>'

    def _table(self, caption: str, values: np.ndarray, mark: bool) -> str:
        head = "".join(f'<th scope="col" style="{CELL}">{escape(c)}</th>' for c in self.columns)
        body = ""
        for i, row in enumerate(values):
            cells = "".join(f'<td style="{CELL}">{self._cell(i, j, mark)}</td>' for j in range(len(row)))
            body += f'<tr><th scope="row">{escape(self.rows[i])} <small>{i}</small></th>{cells}</tr>'
        return (
            f'<table><caption style="{CAPTION}">{escape(caption)}</caption>'
            f'<thead><tr><th scope="col">token</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        )

    def _cell(self, i: int, j: int, mark: bool) -> str:
        value = (self.computed if mark else self.printed)[i, j]
        text = f"{value:.2f}".rstrip("0").rstrip(".")
        differs = mark and abs(self.printed[i, j] - self.computed[i, j]) > 1e-9
        return f"<mark><strong>{text}</strong></mark>" if differs else text
