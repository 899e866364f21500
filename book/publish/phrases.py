"""Numbers as phrases, written in one way on all pages."""

from collections.abc import Iterable


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
