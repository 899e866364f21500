"""What is drawn belongs to its name: figures that pair names with curves refuse or follow a pairing that is off."""

import numpy as np
import pytest

from analysis.plotting import layers
from analysis.plotting.layers import Line


def test_curves_over_layers_need_a_label_a_panel_and_one_look_a_name():
    one = [Line(np.ones(3), "trained", "x")]
    with pytest.raises(ValueError, match="shorter"):
        layers.lines({"a": one, "b": one}, [""])
    with pytest.raises(ValueError, match="'x' must name curves of one look"):
        layers.lines({"a": one, "b": [Line(np.ones(3), "control", "x")]}, ["", ""])
    figure = layers.lines({"a": one, "b": [*one, Line(np.zeros(3), "trained", "y", "--")]}, ["", ""])
    drawn = {line.get_label(): line.get_linestyle() for line in figure.axes[1].lines}
    assert drawn == {"x": "-", "y": "--"}


def test_stacked_panels_have_legends_of_their_own():
    curves = {
        "above": [Line(np.array([0.2, 0.4]), "trained", "a", "--")],
        "below": [Line(np.array([[0.5, 0.4, 0.6]] * 3), "control", "b"), Line(np.ones(3), "trained", "c")],
    }
    figure = layers.stacked(curves, "share")
    above, below = figure.axes
    assert [text.get_text() for text in below.get_legend().get_texts()] == ["b", "c"]
    assert above.lines[0].get_linestyle() == "--"
    assert above.lines[0].get_ydata().tolist() == [0.2, 0.4]
    assert below.collections[0].get_datalim(below.transData).intervaly.tolist() == [0.4, 0.6]
    assert (above.get_xlabel(), below.get_xlabel(), below.get_ylabel()) == ("", "layer", "share")
