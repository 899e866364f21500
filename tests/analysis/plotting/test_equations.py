"""Small matrices as an equation: what stands in the cells, the colours, and what is refused."""

import numpy as np
import pytest
import torch

from analysis import draw_equation
from analysis.plotting import style

W = np.array([[1.0, 0.0], [0.5, 0.5]])


def shown(figure):
    """Return the panels with a matrix."""
    return [panel for panel in figure.axes if panel.images]


def test_each_matrix_stands_in_its_panel_with_its_numbers_and_names():
    figure = draw_equation([W, W @ W], "=", ["once", "twice"], rows="ab", columns=["xy", "uv"])
    first, second = shown(figure)
    np.testing.assert_array_equal(first.images[0].get_array(), W)
    np.testing.assert_array_equal(second.images[0].get_array(), W @ W)
    assert [text.get_text() for text in second.texts] == ["1", "0", "3/4", "1/4"]
    assert [panel.get_title() for panel in (first, second)] == ["once", "twice"]
    assert [[text.get_text() for text in panel.get_yticklabels()] for panel in (first, second)] == [["a", "b"], []]
    assert [text.get_text() for text in second.get_xticklabels()] == ["u", "v"]
    assert [text.get_text() for panel in figure.axes if not panel.images for text in panel.texts] == ["="]


def test_scores_share_one_scale_centred_at_zero():
    low, high = shown(draw_equation([np.array([[-4.0]]), np.array([[2.0]])], "+", ["a", "b"], kind="scores"))
    assert low.images[0].get_clim() == high.images[0].get_clim() == (-4, 4)
    assert low.texts[0].get_text() == "\N{MINUS SIGN}4"


def test_a_number_on_a_dark_cell_is_light():
    panel, _ = shown(draw_equation([np.array([[0.0, 1.0]]), np.array([[0.0]])], "=", ["", ""]))
    assert [text.get_color() for text in panel.texts] == [style.COLOURS["paper"], style.COLOURS["ink"]]


def test_entries_of_a_large_matrix_are_not_written():
    small, large = shown(draw_equation([np.eye(8), np.eye(9)], " ", ["", ""]))
    assert (len(small.texts), len(large.texts)) == (64, 0)


def test_tensors_are_drawn_as_arrays_are():
    (panel,) = shown(draw_equation([torch.tensor(W)], "", ["one"]))
    np.testing.assert_array_equal(panel.images[0].get_array(), W)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], "", []), {}, "at least one matrix"),
        (([W[0]], "", ["a"]), {}, r"\(row, column\)"),
        (([W, W], "", ["a", "b"]), {}, "signs must be 1 for 2 matrices, got 0"),
        (([W], "", ["a"]), {"kind": "x"}, "kind must be one of weights, scores"),
        (([W], "", ["a"]), {"rows": "abc"}, "rows must name the 2 of matrix 0, got 3"),
        (([W], "", ["a"]), {"columns": ["ab", "cd"]}, "columns must be 1 for 1 matrices"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        draw_equation(*arguments, **options)
