"""Numbers as phrases, written in one way on all pages; and names from outside as text that marks nothing up."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

_SET_ALREADY = re.compile(r"(\$[^$]*\$|`[^`]*`)")
_POWER_OF_TEN = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e-0*(\d+)")
_INDEXED = re.compile(r"(?<!\w)([A-Za-z1])_(?:\((\w[^()]*)\)|([A-Za-z]{1,2}|\d))(?:_([a-z]))?(\^T)?(?!\w)")
_TRANSPOSED = re.compile(r"(?<!\w)([A-Z]{1,2}|[a-z1])\^T(?!\w)")

BRACKETS = [("{", "}"), ("(", ")"), ("[", "]"), (r"\left", r"\right")]
CUTS = (("=", 40, 1), (r"\+", 40, 1))
COLUMN = (*CUTS, (r"[-+]|(?<=\\right\))(?=[A-Z])", 62, 12))
"""Where formulas of a line are cut, and those of a table's column, which holds some 62 characters of TeX."""


class Estimate(Protocol):
    """A value with the bounds of its interval, such as an interval or a value of a record."""

    value: float
    low: float
    high: float


def percent(share: float, digits: int = 0) -> str:
    """Write a share in per cent.

    >>> percent(0.256), percent(0.256, 1)
    ('26 %', '25.6 %')
    """
    return f"{100 * share:.{digits}f} %"


def enumerated(values: Iterable, form: str = "") -> str:
    """Write values one after the other, each in the given format.

    >>> enumerated([0.123, 0.5], ".2f")
    '0.12, 0.50'
    """
    return ", ".join(format(value, form) for value in values)


def first_to_last(values: Sequence[float], form: str = ".2f") -> str:
    """Write the first and the last of some values, such as those of the layers; of one value that alone.

    >>> first_to_last([0.25, 9.0, 0.75]), first_to_last([3.0], ".1f")
    ('0.25 to 0.75', '3.0')
    """
    return " to ".join(format(value, form) for value in ([values[0], values[-1]] if len(values) > 1 else values))


def with_interval(estimate: Estimate, form: str = ".2f") -> str:
    """Write a value with the bounds of its interval.

    >>> from analysis.statistics.intervals import Interval
    >>> with_interval(Interval(0.5, 0.413, 0.587))
    '0.50 (0.41 to 0.59)'
    """
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def as_code(text: str) -> str:
    """Write a text as code within a line of Markdown, whatever backticks or ends of lines it holds.

    >>> as_code("my texts.txt"), as_code("a`b")
    ('`my texts.txt`', '`` a`b ``')
    """
    line = " ".join(text.splitlines())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def as_text(text: str) -> str:
    """Write a text within a line of Markdown so that none of its characters marks anything up.

    >>> print(as_text("my_model*"))
    my\\_model\\*
    """
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.splitlines()))


def as_math(text: str) -> str:
    """Write the names of matrices and the powers of ten in a line of plain text as TeX, for a page.

    What stands in dollars or backticks is left as it is.

    >>> print(as_math("With b_K = 0 QK^T W_O_h changes by 2e-05, not by 1e-12; see `W_Q`."))
    With $b_{K}$ = 0 $QK^{\\mathsf T}$ $W_{O,h}$ changes by $2\\cdot10^{-5}$, not by $10^{-12}$; see `W_Q`.
    """
    parts = _SET_ALREADY.split(text)  # what is odd is set already
    parts[::2] = [
        _POWER_OF_TEN.sub(_power, _TRANSPOSED.sub(r"$\1^{\\mathsf T}$", _INDEXED.sub(_indexed, part)))
        for part in parts[::2]
    ]
    return "".join(parts)


def breakable(text: str, cuts: Sequence[tuple[str, int, int]] = CUTS) -> str:
    r"""Cut long formulas of a line in front of their outer ``=`` and, where a piece is still long, ``+``.

    A browser does not break a line within a formula, but it does between two. A cut is where it may be made, from
    which length on, and how far from both ends.

    >>> print(breakable("$Y=WX$ is short; $O=W(XW_V+b_V)W_O+b_O=(WX)W_VW_O+b_O$ is not.", [("=", 30, 1)]))
    $Y=WX$ is short; $O$ ${}=W(XW_V+b_V)W_O+b_O$ ${}=(WX)W_VW_O+b_O$ is not.
    >>> print(breakable(r"$A=" + r"\{" + "X" * 50 + "-" + "Y" * 50 + r"\}$", COLUMN))  # doctest: +ELLIPSIS
    $A$ ${}=\{X...X$ ${}-Y...Y\}$
    """

    def pieces(formula: re.Match) -> str:
        first, *rest = _pieces(formula[1], list(cuts))
        return " ".join([f"${first}$", *(f"${'{}' if piece[0] in '=+-' else ''}{piece}$" for piece in rest)])

    return re.sub(r"\$([^$]+)\$", pieces, text)


def _pieces(formula: str, cuts: list[tuple[str, int, int]]) -> list[str]:
    """Cut a long formula at the places of the first cut, and what is still long at those of the next."""
    if not cuts:
        return [formula]
    places, longest, least = cuts[0]
    found = [m.start() for m in re.finditer(places, formula) if least <= m.start() <= len(formula) - least]
    kept = [at for at in found if len(formula) > longest and _outside(formula[:at])]
    parts = [formula[start:end] for start, end in pairwise([0, *kept, len(formula)])]
    return [piece for part in parts for piece in _pieces(part, cuts[1:])]


def _outside(start: str) -> bool:
    """Whether no bracket that TeX pairs, and no round or square one, is open at the end of a formula's beginning."""
    plain = start.replace(r"\{", "").replace(r"\}", "")
    return all(plain.count(one) == plain.count(other) for one, other in BRACKETS)


def _power(match: re.Match) -> str:
    factor = "" if match[1] == "1" else rf"{match[1]}\cdot"
    return f"${factor}10^{{-{match[2]}}}$"


def _indexed(match: re.Match) -> str:
    base, long, short, head, transposed = match.groups()
    index = (long or short) + (f",{head}" if head else "")
    return f"${base}_{{{index}}}{'^{' + chr(92) + 'mathsf T}' if transposed else ''}$"
