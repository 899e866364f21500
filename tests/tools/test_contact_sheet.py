"""The contact sheet: every picture stands whole in its own cell."""

import doctest

import numpy as np
import pytest
from PIL import Image

from tools import contact_sheet
from tools.contact_sheet import CELL, sheet

RED, BLUE = (255, 0, 0), (0, 0, 255)


def test_each_picture_stands_whole_in_its_cell():
    made = np.asarray(
        sheet([("wide", Image.new("RGB", (2000, 100), RED)), ("high", Image.new("RGB", (100, 2000), BLUE))])
    )
    places = [np.argwhere((made == colour).all(-1)) for colour in (RED, BLUE)]
    for column, found in enumerate(places):
        (top, left), (bottom, right) = found.min(0), found.max(0)
        assert column * CELL[0] <= left <= right < (column + 1) * CELL[0]
        assert 0 < top <= bottom < CELL[1]
    (rows, columns), (longer, narrower) = (np.ptp(found, axis=0) + 1 for found in places)
    assert columns > 10 * rows
    assert longer > 10 * narrower


def test_nothing_to_show_is_refused():
    with pytest.raises(ValueError, match="is the book built"):
        sheet([])


def test_doctests():
    assert doctest.testmod(contact_sheet).failed == 0
