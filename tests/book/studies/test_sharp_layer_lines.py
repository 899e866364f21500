"""Curves over layers: where they, their intervals and their names are drawn."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared import layer_lines
from book.studies.shared.layer_lines import Line


def heights(low: float, high: float, **ends: float) -> dict[str, float]:
    """Return where names are written on an axis from low to high."""
    panel = Figure().add_subplot()
    panel.set_ylim(low, high)
    layer_lines.name_ends(panel, {name: (end, "C3") for name, end in ends.items()}, 20, apart=0.1)
    for text in panel.texts:
        assert (text.xy, text.xyann[0]) == ((20, ends[text.get_text()]), pytest.approx(21.2))
        assert (text.get_color(), text.get_va()) == ("C3", "center")
    assert panel.get_xlim() == pytest.approx((-0.3, 37))
    return {text.get_text(): pytest.approx(text.xyann[1]) for text in panel.texts}


def test_names_that_are_apart_stand_at_their_ends():
    assert heights(0, 10, a=7.5, b=2, c=5) == {"b": 2, "c": 5, "a": 7.5}


def test_names_that_would_overlap_are_moved_up_one_after_another():
    assert heights(-5, 5, a=1, b=1.25, c=1.5, d=4) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_names_at_the_top_stay_below_it_and_move_the_others_down():
    assert heights(-5, 5, a=4.5, b=4.75, c=4.25) == {"b": 4.7, "a": 3.7, "c": 2.7}
    assert heights(-5, 5, a=4.9) == {"a": 4.7}


def test_names_keep_their_distance_if_none_is_asked_for():
    panel = Figure().add_subplot()
    panel.set_ylim(0, 100)
    layer_lines.name_ends(panel, {"a": (50, "k"), "b": (50, "k")}, 5)
    assert sorted(text.xyann[1] for text in panel.texts) == pytest.approx([50, 58])


def curve(values, concept="trained", label="x", dashes="-") -> Line:
    return Line(np.array(values, float), concept, label, dashes)


def test_a_curve_lies_in_its_interval():
    figure = layer_lines.lines(
        {"a": [curve([[2, 1, 4], [3, 2, 6]], "control")], "b": [curve([5, 6], label="y")]}, ["one", "two"]
    )
    left, right = figure.axes
    assert left.lines[0].get_ydata().tolist() == [2, 3]
    assert left.lines[0].get_xdata().tolist() == [0, 1]
    (band,) = left.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    assert corners == {(0, 1), (1, 2), (1, 6), (0, 4)}
    assert (band.get_alpha(), band.get_linewidth().tolist()) == (0.2, [0])
    assert tuple(band.get_facecolor()[0][:3]) == to_rgb(style.COLOURS["control"])
    assert {tuple(corner) for corner in right.collections[0].get_paths()[0].vertices} == {(0, 5), (1, 6)}
    assert [(panel.get_title(), panel.get_ylabel()) for panel in (left, right)] == [("a", "one"), ("b", "two")]


def test_an_axis_begins_at_nothing_unless_a_curve_goes_below():
    above = [[1, -3, 4], [2, 1, 3]]  # the interval alone goes below 0
    below = [[1, 1, 1], [-2, -3, 3]]
    figure = layer_lines.lines({"a": [curve(above)], "b": [curve(below)], "c": [curve([5, 6])]}, [""] * 3)
    first, second, third = (panel.get_ylim()[0] for panel in figure.axes)
    assert (first, third) == (0, 0)
    assert second < -3
    just = layer_lines.lines({"a": [curve([0, 6])]}, [""])
    assert just.axes[0].get_ylim()[0] == 0


@pytest.mark.parametrize(("layers", "ticks"), [(15, 15), (16, 8)])
def test_every_second_layer_is_named_where_there_are_many(layers, ticks):
    figure = layer_lines.lines({name: [curve([1] * layers)] for name in "ab"}, ["", ""])
    assert figure.axes[1].get_xticks().tolist() == list(range(0, layers, layers // ticks))


def test_a_level_is_one_for_all_or_one_a_panel():
    panels = {"a": [curve([1, 2])], "b": [curve([1, 2])]}
    of_all = layer_lines.lines(panels, ["", ""], level=(0.5, "half"))
    of_each = layer_lines.lines(panels, ["", ""], level=([0.25, 0.75], "half"))
    assert [panel.lines[-1].get_ydata()[0] for panel in of_all.axes] == [0.5, 0.5]
    assert [panel.lines[-1].get_ydata()[0] for panel in of_each.axes] == [0.25, 0.75]
    assert [text.get_text() for text in of_all.legends[0].get_texts()] == ["x", "half"]


@pytest.mark.parametrize(("curves", "columns"), [(1, 1), (4, 4), (5, 3), (8, 4)])
def test_a_legend_of_many_has_two_rows(monkeypatch, curves, columns):
    asked = []
    monkeypatch.setattr(layer_lines.style, "legend", lambda *given: asked.append(given[-1]))
    layer_lines.lines({"a": [curve([1, 2], label=str(k)) for k in range(curves)]}, [""])
    assert asked == [columns]


def test_a_fourth_seed_has_the_dashes_of_the_first():
    values = np.ones((4, 2, 3))
    found = layer_lines.over_seeds(values, values + 1)
    assert [line.dashes for line in found[::2]] == ["-", "--", ":", "-"]
    assert (found[-1].label, found[-2].label) == ("trained, seed 3", "control, seed 3")
