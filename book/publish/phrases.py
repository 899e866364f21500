"""Numbers as phrases, written in one way on all pages; and names from outside as text that marks nothing up."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

_SET_ALREADY = re.compile(r"(\$[^$]*\$|`[^`]*`)")
_POWER_OF_TEN = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e-0*(\d+)")
_INDEXED = re.compile(r"(?<!\w)([A-Za-z1])_(?:\((\w[^()]*)\)|([A-Za-z]{1,2}|\d))(?:_([a-z]))?(\^T)?(?!\w)")
_TRANSPOSED = re.compile(r"(?<!\w)([A-Z]{1,2}|[a-z1])\^T(?!\w)")


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


def first_to_last(values: Sequence[float], form: str = ".2f") -> str:
    """Write the first and the last of some values, such as those of the layers; of one value that alone.

    Examples
    --------
    >>> first_to_last([0.25, 9.0, 0.75]), first_to_last([3.0], ".1f")
    ('0.25 to 0.75', '3.0')
    """
    return " to ".join(format(value, form) for value in ([values[0], values[-1]] if len(values) > 1 else values))


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


def as_math(text: str) -> str:
    """Write the names of matrices and the powers of ten in a line of plain text as TeX, for a page.

    What stands in dollars or backticks is left as it is.

    Examples
    --------
    >>> print(as_math("With b_K = 0 QK^T W_O_h changes by 2e-05, not by 1e-12; see `W_Q`."))
    With $b_{K}$ = 0 $QK^{\\mathsf T}$ $W_{O,h}$ changes by $2\\cdot10^{-5}$, not by $10^{-12}$; see `W_Q`.
    """
    parts = _SET_ALREADY.split(text)  # what is odd is set already
    parts[::2] = [
        _POWER_OF_TEN.sub(_power, _TRANSPOSED.sub(r"$\1^{\\mathsf T}$", _INDEXED.sub(_indexed, part)))
        for part in parts[::2]
    ]
    return "".join(parts)


def breakable(text: str, longest: int = 40) -> str:
    """Cut long formulas of a line in front of their outer ``=`` and, where a piece is still long, ``+``.

    A browser does not break a line within a formula, but it does between two.

    Examples
    --------
    >>> print(breakable("$Y=WX$ is short; $O=W(XW_V+b_V)W_O+b_O=(WX)W_VW_O+b_O$ is not.", longest=30))
    $Y=WX$ is short; $O$ ${}=W(XW_V+b_V)W_O+b_O$ ${}=(WX)W_VW_O+b_O$ is not.
    """
    return re.sub(
        r"\$([^$]+)\$",
        lambda formula: " ".join(
            f"${'{}' if piece[0] in '=+' else ''}{piece}$" for piece in _pieces(formula[1], "=+", longest)
        ),
        text,
    )


def _pieces(formula: str, signs: str, longest: int) -> list[str]:
    """Cut a long formula before the first of the signs, and what is still long before the next."""
    if len(formula) <= longest or not signs:
        return [formula]
    cuts = [
        m.start() for m in re.finditer(re.escape(signs[0]), formula) if m.start() and _outside(formula[: m.start()])
    ]
    return [
        piece
        for start, end in pairwise([0, *cuts, len(formula)])
        for piece in _pieces(formula[start:end], signs[1:], longest)
    ]


def _outside(start: str) -> bool:
    """Whether no bracket is open at the end of a formula's beginning."""
    return (
        start.count("{") == start.count("}")
        and start.count(r"\left") == start.count(r"\right")
        and start.count("(") == start.count(")")
        and start.count("[") == start.count("]")
    )


def _power(match: re.Match) -> str:
    factor = "" if match[1] == "1" else rf"{match[1]}\cdot"
    return f"${factor}10^{{-{match[2]}}}$"


def _indexed(match: re.Match) -> str:
    base, long, short, head, transposed = match.groups()
    index = (long or short) + (f",{head}" if head else "")
    return f"${base}_{{{index}}}{'^{' + chr(92) + 'mathsf T}' if transposed else ''}$"
