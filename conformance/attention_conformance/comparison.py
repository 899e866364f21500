"""What a library gives beside the golden values: exact, off by how much, or not offered."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attention_conformance.cases import Case, NotOffered, cases

PARTS = "content", "common", "semi_bias", "query_side", "kernel", "positions"
QUANTITIES = (
    *("queries", "keys", "scores", *PARTS, "attention", "weighted_values", "output"),
    *("folded_b_O", "folded_W", "folded_b", "semi_bias_by_position"),
)
"""What is compared, in the order of a table; README.md has the formulas."""
LIMITS = {"float64": 1e-12, "float32": 1e-5}
"""How far off a number may be, in parts of the largest of its kind, by what the library computes in.

Sums of a hundred products round to about 1e-15 in float64 and 1e-6 in float32; the smallest mistake of kind (a sign, a
scale, an option left out) changes the first digits. Between the two lie 1e-12 and 1e-5, with room on both sides.
"""


@dataclass(frozen=True)
class Result:
    """One quantity of one layer: ``off`` is ``None`` where it is not offered, and ``note`` says why."""

    case: Case
    quantity: str
    off: float | None
    limit: float
    note: str = ""

    @property
    def exact(self) -> bool:
        """Whether it is offered and within the limit."""
        return self.off is not None and self.off <= self.limit

    @property
    def cell(self) -> str:
        """Say it in a word."""
        return "-" if self.off is None else "exact" if self.exact else f"{self.off:.0e}"


def limit_of(case: Case, adapter: Any) -> float:
    """Return how far off an adapter's numbers may be: less is asked where the model itself rounds to float32."""
    return LIMITS["float32" if case.rounded else getattr(adapter, "computes_in", "float64")]


def difference(case: Case, quantity: str, given: Any) -> float:
    """Return the largest difference in parts of the largest golden entry; of a part of scores, of the largest part.

    Scores are compared where a query sees a key. Arrays that lack an axis of length 1, or have one in the place of
    equal entries, are spread out.
    """
    golden = case.golden[quantity]
    given = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=float)
    try:
        given = np.broadcast_to(given, golden.shape)
    except ValueError:
        raise ValueError(f"{quantity} has shape {given.shape}, expected {golden.shape}") from None
    names = [name for name in PARTS if name in case.golden] if quantity in PARTS else [quantity]
    size = max(np.abs(case.golden[name]).max() for name in names)
    seen = case.golden["attention"] > 0
    gap = np.where(seen, given, 0) - golden if quantity == "scores" else given - golden
    if case.up_to_row and quantity in ("scores", "positions"):
        mean = np.where(seen, gap, 0).sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
        gap = np.where(seen, gap - mean, 0)
    off = float(np.abs(gap).max() / max(size, np.finfo(float).tiny))
    return off if math.isfinite(off) else math.inf


def compare(case: Case, adapter: Any) -> list[Result]:
    """Ask an adapter for one layer and compare all that there is a golden value of."""
    limit, asked = limit_of(case, adapter), [name for name in QUANTITIES if name in case.golden]
    try:
        given = adapter.compute(case)
    except NotOffered as reason:
        return [Result(case, name, None, limit, str(reason)) for name in asked]
    return [judge(case, name, given.get(name), limit) for name in asked]


def judge(case: Case, quantity: str, given: Any, limit: float) -> Result:
    """Compare one quantity, or note why it is not offered."""
    if given is None or isinstance(given, NotOffered):
        return Result(case, quantity, None, limit, str(given or ""))
    return Result(case, quantity, difference(case, quantity, given), limit)


def run(adapter: Any, models: Iterable[str] = ()) -> Iterator[Result]:
    """Compare everything."""
    for case in cases(*models):
        yield from compare(case, adapter)


def table(results: list[Result]) -> str:
    """Lay out a row per layer, a column per quantity; a dot where there is nothing to compare."""
    found = {(str(one.case), one.quantity): one.cell for one in results}
    rows = list(dict.fromkeys(str(one.case) for one in results))
    lines = [[row, *(found.get((row, name), ".") for name in QUANTITIES)] for row in rows]
    short = [name.replace("semi_bias_by_position", "by_position").replace("weighted_", "w_") for name in QUANTITIES]
    every = [["", *short], *lines]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in every)


def write_results(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write the entries of one library; those of others that the file holds stay."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    own = {entry["library"] for entry in entries}
    kept = [entry for entry in kept if entry["library"] not in own]
    path.write_text(json.dumps(kept + entries, indent=1) + "\n", encoding="utf-8")


def results_by_quantity(results: list[Result], adapter: Any) -> list[dict[str, Any]]:
    """Sum up for the table of a page: one entry per quantity, with how many models it holds for and what is known."""
    said = []
    for name in QUANTITIES:
        of = [one for one in results if one.quantity == name]
        given = [one for one in of if one.off is not None]
        wrong = [one for one in given if not one.exact]
        models, right = ({one.case.model for one in each} for each in (of, given))
        right -= {one.case.model for one in wrong}
        note = [f"{len(right)} of {len(models)} models"] if given else []
        note += [", ".join(dict.fromkeys(one.case.model for one in wrong)) + " off"] if wrong else []
        documented = getattr(adapter, "notes", {}).get(name)
        said.append(
            {
                "library": adapter.library,
                "version": adapter.version,
                "quantity": name,
                "exact": bool(given) and not wrong,
                "off": max((one.off for one in wrong if one.off is not None), default=None),
                "not_offered": not given,
                "note": "; ".join(note + ([documented] if documented else [])),
                "tolerance": LIMITS[getattr(adapter, "computes_in", "float64")],
            }
        )
    return said
