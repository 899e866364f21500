"""Numbers as phrases, written in one way on all pages; and names from outside as text that marks nothing up."""

import re
from collections.abc import Iterable
from typing import Protocol


class Estimate(Protocol):
    """A value with the bounds of its interval, such as an interval or a value of a record."""

    value: float
    low: float
    high: float


def percent(share: float, digits: int = 0) -> str:
    """Write a share in per cent.

    Examples
    --------
    >>> percent(0.256), percent(0.256, 1)
    ('26 %', '25.6 %')
    """
    return f"{100 * share:.{digits}f} %"


def enumerated(values: Iterable, form: str = "") -> str:
    """Write values one after the other, each in the given format.

    Examples
    --------
    >>> enumerated([0.123, 0.5], ".2f")
    '0.12, 0.50'
    """
    return ", ".join(format(value, form) for value in values)


def with_interval(estimate: Estimate, form: str = ".2f") -> str:
    """Write a value with the bounds of its interval.

    Examples
    --------
    >>> from analysis.statistics.intervals import Interval
    >>> with_interval(Interval(0.5, 0.413, 0.587))
    '0.50 (0.41 to 0.59)'
    """
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def as_code(text: str) -> str:
    """Write a text as code within a line of Markdown, whatever backticks or ends of lines it holds.

    Examples
    --------
    >>> as_code("my texts.txt"), as_code("a`b")
    ('`my texts.txt`', '`` a`b ``')
    """
    line = " ".join(text.splitlines())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def as_text(text: str) -> str:
    """Write a text within a line of Markdown so that none of its characters marks anything up.

    Examples
    --------
    >>> print(as_text("my_model*"))
    my\\_model\\*
    """
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.splitlines()))
