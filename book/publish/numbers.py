"""The numbers of a page: every number of a measurement, handed to the page's text under a name of its own."""

import math
import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

from book.publish import recorded

MEASURED = "BOOK_MEASURED"  # the file that an execution of the book leaves its measurement in, for the tests of claims
DIGITS = 6  # more than any page prints, so that no printed digit is rounded twice


@dataclass(frozen=True)
class Numbers:
    """Base of what a study measures: fields that are numbers or text can be shown, all others are for figures.

    A field ``ratio_50`` of a class whose ``prefix`` is ``"sb"`` is shown by ``{glue:text}`sb-ratio-50```. Fields that
    are dataclasses themselves are walked through; their own names are no part of a name.
    """

    prefix: ClassVar[str] = ""


def named_numbers(measured: Any, prefix: str | None = None) -> Iterator[tuple[str, int | float | str]]:
    """Yield the glued name and the value of every number and text of a measurement.

    A float keeps six significant digits; the page's format rounds it.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Rise(Numbers):
    ...     prefix = "sb"
    ...     ratio_50: float
    ...     heads: int
    >>> dict(named_numbers(Rise(2.0 / 3, 12)))
    {'sb-ratio-50': 0.666667, 'sb-heads': 12}
    """
    for name, value in _walk(measured, prefix):
        yield name, rounded(value)


def _walk(measured: Any, prefix: str | None = None) -> Iterator[tuple[str, int | float | str]]:
    prefix = getattr(measured, "prefix", "") if prefix is None else prefix
    for field in fields(measured):
        value = getattr(measured, field.name)
        if is_dataclass(value) and isinstance(value, Numbers):
            yield from _walk(value, value.prefix or prefix)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            yield "-".join(filter(None, (prefix, field.name.replace("_", "-")))), value


def rounded(value: int | float | str) -> int | float | str:
    """Round a float to six significant digits; leave everything else as it is.

    Examples
    --------
    >>> rounded(1234.5678), rounded(7), rounded("none")
    (1234.57, 7, 'none')
    """
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and math.isfinite(value) else value


def glue_numbers(measured: Any) -> None:
    """Hand to a page every number and text of its study's measurement that the page shows.

    Raises
    ------
    ValueError
        If two fields would have the same name.
    """
    from myst_nb import glue

    names = [name for name, _ in named_numbers(measured)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two fields of {type(measured).__name__} would be glued as {twice[0]!r}")
    shown = set(recorded.shown(page_of(measured)))
    for name, value in named_numbers(measured):
        if name in shown:
            glue(name, value, display=False)
    keep(measured)


def page_of(measured: Any) -> Path:
    """Return the page that shows a measurement, by the study which defines its class: the evidence, if there is any."""
    study = Path(sys.modules[type(measured).__module__].__file__)
    while study.parent.name != "studies":
        study = study.parent
    page, book = f"{study.stem.replace('_', '-')}.md", study.parents[1]
    return evidence if (evidence := book / "evidence" / page).exists() else book / page


def keep(measured: Any) -> None:
    """Leave the measurement where the execution of the book wants it, so that the tests need not compute it again."""
    if path := os.environ.get(MEASURED):
        temporary = Path(path).with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps(measured))
        temporary.replace(path)
