"""What is drawn belongs to its name: figures that pair names with curves refuse or follow a pairing that is off."""

import numpy as np
import pytest

from analysis.plotting import style
from book.studies.semi_bias import figures as semi_bias
from book.studies.weighted_mean import figures as weighted_mean

RNG = np.random.default_rng(0)


def test_a_dial_has_the_control_of_its_title():
    at, curves = np.array([0.0, 0.1, 1.0, 10.0]), RNG.random((2, 4, 3))
    controls = {"b": curves[1] / 2, "a": curves[0] / 2}  # another order than the panels
    figure = weighted_mean.dials(at, {"a": curves[0], "b": curves[1]}, controls)
    for panel, its in zip(figure.axes, curves):
        grey = [line for line in panel.lines if line.get_color() == style.COLOURS["control"] and len(line.get_xdata())]
        np.testing.assert_allclose([line.get_ydata() for line in grey], its[1:].T / 2)


def test_parts_of_a_position_only_score_are_three():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        semi_bias.peaks(RNG.random((2, 4, 8)))
    panels = semi_bias.peaks(RNG.random((3, 4, 8))).axes[:3]
    assert [axes.get_title(loc="left") for axes in panels] == [*semi_bias.PARTS]


def test_a_scatter_of_tokens_has_the_title_of_its_head():
    norm = np.arange(1.0, 6.0)
    scores = RNG.random((3, 5))  # an odd number leaves one panel empty
    figure = semi_bias.norm_against_semi_bias(norm, scores, norm, ["head 0", "head 1", "head 2"])
    assert [axes.get_title(loc="left") for axes in figure.axes[:4]] == ["head 0", "head 1", "head 2", ""]
    with pytest.raises(ValueError, match=r"shorter|longer"):
        semi_bias.norm_against_semi_bias(norm, scores, norm, ["head 0", "head 1"])


def test_tokens_that_never_occur_are_not_drawn():
    norm, counts = np.arange(1.0, 6.0), np.array([0.0, 3.0, 1.0, 0.0, 2.0])
    drawn = semi_bias.norm_against_semi_bias(norm, RNG.random((1, 5)), counts, ["head 0"]).axes[0].collections[0]
    assert drawn.get_offsets()[:, 0].tolist() == [2.0, 3.0, 5.0]


def test_a_dot_marks_the_first_key_that_beats_key_0():
    lead = np.array([[[0.0, -1.0, 2.0, 3.0], [0.0, -1.0, -1.0, -1.0]]] * 2)  # the second head never does
    figure = semi_bias.curves(lead, (0, 1))
    dots = [line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert dots == [[2]]
