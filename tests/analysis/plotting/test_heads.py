"""One number per head: trained beside control, and their names."""

import numpy as np
import pytest

from analysis import draw_heads
from analysis.plotting import style

TRAINED, CONTROL = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0.9, 0.9], [0.8, 0.7]])


def test_trained_heads_stand_left_of_the_control_of_their_layer():
    (panel,) = draw_heads(TRAINED, CONTROL, title="A title.", ylabel="y").axes
    left, right = panel.lines
    np.testing.assert_array_equal(left.get_ydata(), TRAINED.ravel())
    np.testing.assert_array_equal(right.get_ydata(), CONTROL.ravel())
    assert np.round(left.get_xdata()).tolist() == [0, 0, 1, 1]
    assert (left.get_xdata() < right.get_xdata()).all()
    assert (left.get_color(), right.get_color()) == (style.COLOURS["trained"], style.COLOURS["control"])
    assert panel.get_title() == "A title."


@pytest.mark.parametrize("swap", [False, True])
def test_the_name_of_the_higher_dots_stands_above_them(swap):
    pair = (CONTROL, TRAINED) if swap else (TRAINED, CONTROL)
    (panel,) = draw_heads(*pair, title="", ylabel="", control_name="flat").axes
    places = {text.get_text(): (text.xy[1], text.get_va()) for text in panel.texts}
    low, high = ("flat", "trained") if swap else ("trained", "flat")
    assert places == {low: (0.3, "top"), high: (0.8, "bottom")}


@pytest.mark.parametrize(
    ("trained", "control", "message"),
    [(TRAINED[0], CONTROL[0], "layer, head"), (TRAINED, CONTROL[:1], "alike"), (TRAINED * np.nan, CONTROL, "finite")],
)
def test_what_does_not_fit_is_refused(trained, control, message):
    with pytest.raises(ValueError, match=message):
        draw_heads(trained, control, title="", ylabel="")
