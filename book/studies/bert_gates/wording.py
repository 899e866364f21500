"""Numbers as phrases for the chapter, where another model may have nothing to measure."""

import math

from book.publish.phrases import percent

NOTHING = "(nothing to measure)"


def number_phrase(value: float, form: str) -> str:
    """Write a number in the given format, or say that there is nothing to measure where it is nan.

    Examples
    --------
    >>> number_phrase(0.5, ".2f"), number_phrase(float("nan"), ".2f")
    ('0.50', '(nothing to measure)')
    """
    return NOTHING if math.isnan(value) else format(value, form)


def share_phrase(share: float, digits: int = 0) -> str:
    """Write a share in per cent, or say that there is nothing to measure where it is nan.

    Examples
    --------
    >>> share_phrase(0.256), share_phrase(float("nan"))
    ('26 %', '(nothing to measure)')
    """
    return NOTHING if math.isnan(share) else percent(share, digits)
