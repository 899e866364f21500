"""The numbers of a page: every number of a measurement, handed to the page's text under a name of its own."""

import math
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

MEASURED = "BOOK_MEASURED"  # the file that an execution of the book leaves its measurement in, for the tests of claims
DIGITS = 3


@dataclass(frozen=True)
class Numbers:
    """Base of what a study measures: fields that are numbers or text are glued, all others are for figures.

    A field ``ratio_50`` of a class whose ``prefix`` is ``"sb"`` becomes ``{glue:text}`sb-ratio-50```. Fields that are
    dataclasses themselves are walked through; their own names are no part of a glued name.
    """

    prefix: ClassVar[str] = ""


def named_numbers(measured: Any, prefix: str | None = None) -> Iterator[tuple[str, int | float | str]]:
    """Yield the glued name and the value of every number and text of a measurement.

    A float keeps three significant digits, so that it is the same on every machine.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Rise(Numbers):
    ...     prefix = "sb"
    ...     ratio_50: float
    ...     heads: int
    >>> dict(named_numbers(Rise(2.0 / 3, 12)))
    {'sb-ratio-50': 0.667, 'sb-heads': 12}
    """
    prefix = getattr(measured, "prefix", "") if prefix is None else prefix
    for field in fields(measured):
        value = getattr(measured, field.name)
        if is_dataclass(value) and isinstance(value, Numbers):
            yield from named_numbers(value, value.prefix or prefix)
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int | float | str):
            yield "-".join(filter(None, (prefix, field.name.replace("_", "-")))), rounded(value)


def rounded(value: int | float | str) -> int | float | str:
    """Round a float to three significant digits; leave everything else as it is.

    Examples
    --------
    >>> rounded(1234.5), rounded(7), rounded("none")
    (1230.0, 7, 'none')
    """
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and math.isfinite(value) else value


def glue_numbers(measured: Any) -> None:
    """Hand every number and text of a measurement to the page.

    Raises
    ------
    ValueError
        If two fields would have the same glued name.
    """
    from myst_nb import glue

    seen: set[str] = set()
    for name, value in named_numbers(measured):
        if name in seen:
            raise ValueError(f"two fields of {type(measured).__name__} would be glued as {name!r}")
        seen.add(name)
        glue(name, value, display=False)
    keep(measured)


def keep(measured: Any) -> None:
    """Leave the measurement where the execution of the book wants it, so that the tests need not compute it again."""
    if path := os.environ.get(MEASURED):
        temporary = Path(path).with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps(measured))
        temporary.replace(path)
