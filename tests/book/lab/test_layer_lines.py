"""What is drawn belongs to its name: figures that pair names with curves refuse or follow a pairing that is off."""

import numpy as np
import pytest

from book.lab import layer_lines as layers
from book.lab.layer_lines import Line


def test_curves_over_layers_need_a_label_a_panel_and_one_look_a_name():
    one = [Line(np.ones(3), "trained", "x")]
    with pytest.raises(ValueError, match="shorter"):
        layers.lines({"a": one, "b": one}, [""])
    with pytest.raises(ValueError, match="'x' must name curves of one look"):
        layers.lines({"a": one, "b": [Line(np.ones(3), "control", "x")]}, ["", ""])
    figure = layers.lines({"a": one, "b": [*one, Line(np.zeros(3), "trained", "y", "--")]}, ["", ""])
    drawn = {line.get_label(): line.get_linestyle() for line in figure.axes[1].lines}
    assert drawn == {"x": "-", "y": "--"}
