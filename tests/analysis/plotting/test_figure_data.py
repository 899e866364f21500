"""The numbers behind a figure are those that were drawn."""

import base64
import io

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

from analysis.plotting import style
from analysis.plotting.figure_data import MANY, MIME, data


@pytest.fixture
def drawn():
    fig, (left, right) = style.new(1, 2)
    left.plot([1, 2, 3], [4, 5, 6], label="a $T^p$")
    left.axhline(0.5)
    left.plot([], [], label="for the legend only")
    left.scatter([1, 2], [3, 4], c=[7, 8], label="points")
    left.vlines([0, 1], [2, 3], [4, 5])
    left.set(xlabel="position", title="left one")
    right.imshow(np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 3.0))
    right.bar([0, 1], [5, 6], width=0.5, label="bars")
    return fig


def test_lines_maps_points_segments_and_bars_come_back(drawn):
    found = data(drawn)
    np.testing.assert_array_equal(found["panel0.line0"], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(found["panel0.line1"][1], [0.5, 0.5])
    np.testing.assert_array_equal(found["panel0.points0"], [[1, 3], [2, 4]])
    np.testing.assert_array_equal(found["panel0.points0.values"], [7, 8])
    np.testing.assert_array_equal(found["panel0.segments1"], [[[0, 2], [0, 4]], [[1, 3], [1, 5]]])
    np.testing.assert_array_equal(found["panel1.image0"], [[1, 2], [np.nan, 4]])
    np.testing.assert_array_equal(found["panel1.bars0"], [[-0.25, 0, 0.5, 5], [0.75, 0, 0.5, 6]])
    assert "panel0.line2" not in found
    assert "panel0: left one; x: position; y: none" in found["contents"]
    assert "panel0.line0: a T^p" in found["contents"]


def test_a_notebook_gets_picture_png_and_numbers_and_the_numbers_need_no_pickle(drawn):
    shown, _ = DisplayFormatter().format(drawn)
    assert "<svg" in drawn._repr_svg_()
    packed = {name: base64.b64decode(text) for name, text in shown[MIME].items()}
    assert packed["png"].startswith(b"\x89PNG")
    with np.load(io.BytesIO(packed["npz"]), allow_pickle=False) as numbers:
        assert numbers["panel0.line0"].shape == (2, 3)
        assert numbers["contents"].dtype.kind == "U"


def test_masked_whole_numbers_become_nan():
    fig, ax = style.new()
    ax.imshow(np.ma.masked_equal([[1, 2], [3, 4]], 3))
    np.testing.assert_array_equal(data(fig)["panel0.image0"], [[1, 2], [np.nan, 4]])


def test_many_numbers_are_kept_in_single_precision():
    fig, ax = style.new()
    ax.imshow(np.zeros((MANY, 2)))
    assert data(fig)["panel0.image0"].dtype == np.float32
