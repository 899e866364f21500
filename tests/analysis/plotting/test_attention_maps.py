"""Figures of attention maps: what each row makes of the values, and the gate of each cell."""

import numpy as np
import torch
from matplotlib.colors import to_rgba

from analysis.maps import gates
from analysis.plotting import attention_maps, style


def test_each_row_says_what_it_makes_of_the_values():
    maps = {"back": gates.backward(4, 1), "even": gates.closed(4), "one": gates.directional(4, 2)}
    figure = attention_maps.draw_gates(maps, torch.arange(1.0, 5))
    assert [panel.get_title() for panel in figure.axes] == list(maps)
    made = [[text.get_text() for text in panel.texts] for panel in figure.axes]
    assert made == [["2.5", "1", "2", "3"], ["2.5"] * 4, ["3"] * 4]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["1", "2", "3", "4"]


def test_more_maps_than_panels_of_a_line_take_another_line():
    figure = attention_maps.draw_gates({str(k): gates.closed(2) for k in range(6)}, np.arange(2))
    assert [panel.get_visible() for panel in figure.axes] == [True] * 6 + [False] * 2


def test_cells_have_the_colour_of_their_gate():
    cells = np.full((3, 3), gates.GATES.index("closed"))
    cells[:, 1], cells[0, 2] = gates.GATES.index("directional"), -1
    figure = attention_maps.draw_readings([np.eye(3)], [cells], ["one head"], gates.GATES, "abc")
    left, right = figure.axes[:2]
    assert left.get_title(loc="left") == "one head"
    image = right.images[0]
    shown = image.cmap(image.norm(image.get_array()))
    assert np.allclose(shown[:, 1], to_rgba(style.GATES["directional"]))
    assert image.get_array().mask.tolist() == (cells < 0).tolist()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["directional", "closed"]


def test_a_map_that_is_all_one_gate_says_so():
    closed, half = np.full((4, 4), gates.GATES.index("closed")), np.zeros((4, 4), int)
    half[2:] = gates.GATES.index("closed")
    figure = attention_maps.draw_readings([np.eye(4)] * 4, [closed, half] * 2, list("abcd"), gates.GATES, ["t"] * 4)
    assert [[text.get_text() for text in panel.texts] for panel in figure.axes] == [[], ["all closed"], [], []] * 2
