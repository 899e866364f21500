"""Figures of the variant classifier: that they show what they are given."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from analysis.maps.gates import GATES
from book.studies.bert_normality import figures as normality
from book.studies.shared import layer_lines as layers
from book.studies.variant_classifier import figures

RNG = np.random.default_rng(0)


def test_the_leak_names_classes_and_shares():
    figure = figures.leak(["A", "B"], np.zeros((2, 40)), [3810, 3822], np.array([[0, 5], [10, 0]]))
    left, right = figure.axes[:2]
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["A", "B"]
    assert sorted(text.get_text() for text in right.texts) == ["100", "100"]
    assert figure.get_suptitle() == "2 of 2 variants have a length that no other has."
    shared = figures.leak(["A", "B"], np.zeros((2, 40)), [3810, 3822], np.array([[5, 0], [9, 1]]))
    assert shared.get_suptitle().startswith("1 of 2")


def test_accuracies_draw_every_interval():
    figure = figures.accuracies({"words": [(0.9, 0.8, 0.95)] * 3, "BERT": [(1.0, 0.9, 1.0)]}, ("a", "b", "c"), ["BERT"])
    lines = figure.axes[0].lines
    assert len(lines) == 2 * 4
    assert figure.axes[0].get_title() == "1 of 2 ways are always right."
    assert lines[0].get_xdata() == pytest.approx([80, 95])
    assert lines[-1].get_color() != lines[0].get_color()


def test_curves_of_seeds_pair_each_control_with_its_seed():
    trained, control = RNG.random((2, 5, 3)), RNG.random((2, 4, 3))
    curves = layers.over_seeds(trained, control)
    assert [(c.concept, c.label, c.dashes) for c in curves] == [
        ("control", "control, seed 0", "-"),
        ("trained", "trained, seed 0", "-"),
        ("control", "control, seed 1", "--"),
        ("trained", "trained, seed 1", "--"),
    ]
    assert curves[3].values[:, 0] == pytest.approx(trained[1].mean(0))
    assert (curves[0].values[:, 1] < control[0].mean(0)).all()
    figure = layers.lines({"one": curves, "two": curves[:2]}, ["", ""], level=(0.5, "level"))
    assert [line.get_label() for line in figure.axes[0].lines] == [c.label for c in curves] + ["level"]


def test_histograms_stand_in_rows():
    values = {f"{k}": ("trained" if k < 3 else "control", RNG.normal(size=90)) for k in range(6)}
    figure = normality.histograms(values, dict.fromkeys(values, 0.05), rows=2)
    assert [axes.get_title() for axes in figure.axes] == [f"{k}\nD = 0.050" for k in range(6)]
    assert [axes.get_xlabel() for axes in figure.axes] == [""] * 3 + ["standardised"] * 3
    colours = [axes.patches[0].get_facecolor() for axes in figure.axes]
    assert colours[:3] == [colours[0]] * 3 != colours[3:]


def test_emergence_draws_seeds_and_layers():
    steps, gates = np.array([[0, 5, 9]] * 3), RNG.random((3, 3, 4, len(GATES)))
    cone = RNG.random((3, 3, 6))
    figure = figures.emergence(steps, {"cone": cone}, {"directional": gates[..., 0], "cluster": gates[..., 4]})
    left, right = figure.axes
    assert [line.get_ydata().tolist() for line in left.lines[4:8]] == [cone[1, :, i].tolist() for i in (0, 2, 3, 5)]
    assert len(right.lines) == 6
    assert right.lines[4].get_ydata() == pytest.approx(100 * gates[1, :, :, 4].mean(1))
    assert right.lines[4].get_color() == figures.style.GATES["cluster"]


def test_pretraining_gives_the_seeds_one_label_and_what_is_one_value_no_interval():
    curves = {
        "pre-trained": RNG.random((4, 3)),
        "seed 0": RNG.random((4, 3)),
        "seed 1": RNG.random((4, 3)),
        "control": RNG.random((4, 3)),
        "before the classes": RNG.random(3),
    }
    figure = figures.pretraining({"directional": curves, "cluster": curves}, ["%", ""])
    drawn = figure.axes[0].lines
    assert [line.get_ydata().tolist() for line in drawn] == [
        pytest.approx(values.mean(0) if values.ndim == 2 else values) for values in curves.values()
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "pre-trained",
        "three seeds, not",
        "control",
        "before the classes",
    ]
    assert drawn[1].get_color() == drawn[2].get_color() != drawn[0].get_color()


def test_training_and_tables():
    figure = figures.training(np.ones((2, 45)), np.array([[0, 40]] * 2), np.array([[0.1, 1.0]] * 2))
    assert len(figure.axes[0].lines[0].get_xdata()) == 4
    assert figure.axes[1].lines[0].get_ydata().tolist() == [10, 100]
    table = figures.percentages({"one": np.eye(2)}, ["A", "B"], ["test", "new"])
    assert [text.get_text() for text in table.axes[0].texts] == ["100", "0", "0", "100"]


def shown(panel):
    """Return the heights of the bars of each histogram in a panel."""
    return [[bar.get_height() for bar in bars] for bars in panel.containers]


def test_a_control_stands_in_the_panel_of_what_it_is_compared_with_on_one_scale():
    near, far = {"control": np.zeros(4), "trained": np.ones(4)}, {"control": np.ones(2), "trained": np.full(2, 9.0)}
    figure = figures.beside_control({"one": {"Q": near}, "two": {"Q": far}}, "length", level=(1, "as long"))
    top, bottom = figure.axes
    assert [max(heights) for heights in shown(top) + shown(bottom)] == [100] * 4
    assert top.get_xlim() == bottom.get_xlim()
    assert (top.get_ylabel(), bottom.get_ylabel()) == ("one\nshare (%)", "two\nshare (%)")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"as long", "random weights", "trained"}
    colours = [bars[0].get_facecolor()[:3] for bars in top.containers]
    assert colours == [to_rgb(figures.style.COLOURS[concept]) for concept in ("control", "trained")]


def test_a_bell_is_drawn_where_densities_are():
    values = {"control": RNG.normal(size=400), "trained": RNG.normal(size=400)}
    figure = figures.beside_control({"one": {"a": values, "b": values}}, "z", bell=True)
    assert figure.axes[0].lines[-1].get_ydata().max() == pytest.approx(0.3989, abs=1e-3)
    widths = np.diff(np.linspace(-4, 4, 46))
    assert np.dot(shown(figure.axes[0])[0], widths) == pytest.approx(1)


def test_curves_by_layer_have_their_names_at_their_ends_and_none_overlaps():
    def band(end):
        return np.linspace(0, end, 6)[:, None] + np.array([0, -0.1, 0.1])

    tuned = {"fine-tuned": band(1.0), "random": band(0.99), "shuffled": band(0.98)}
    figure = figures.by_layer({"a": tuned, "b": {"trained": band(2.0)}}, "cosine", level=(0.5, "half"))
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim()
    places = {text.get_text(): text.xyann[1] for text in left.texts if text.get_text() != "half"}
    assert set(places) == set(tuned)
    assert np.diff(sorted(places.values())).min() >= 0.99 * layers.APART * np.ptp(left.get_ylim())
    assert left.lines[0].get_ydata().tolist() == pytest.approx(np.linspace(0, 1, 6))
    assert left.lines[0].get_color() != left.lines[1].get_color() == left.lines[2].get_color()


def test_maps_of_a_row_share_a_scale():
    row = {"one": np.full((3, 3), 4.0), "two": np.ones((3, 3))}
    figure = figures.maps({"first": row, "second": {"one": np.full((3, 3), 9.0), "two": np.ones((3, 3))}})
    panels = [panel for panel in figure.axes if panel.get_title()]
    assert [(panel.images[0].norm.vmin, panel.images[0].norm.vmax) for panel in panels] == [(0, 4)] * 2 + [(0, 9)] * 2
    assert [panel.get_title() for panel in panels] == ["one", "two"] * 2
    assert [panel.get_ylabel() for panel in panels] == ["first", "", "second", ""]
    assert len(figure.axes) == 6  # with a bar a row
    assert len(figures.maps({"first": row}, bar=False).axes) == 2


def test_the_height_of_heads_follows_what_orders_them():
    layers, within = np.meshgrid(np.arange(3.0), np.arange(4.0), indexing="ij")
    entropy = {"trained": (1 + within) / 5, "control": np.full((3, 4), 0.99)}
    sink = within == 0
    by_layer = normality.effects(entropy, {"trained": 1 + 10 * layers + within, "control": np.full((3, 4), 1e-7)}, sink)
    by_entropy = normality.effects(
        entropy, {"trained": 1 + layers + 10 * within, "control": np.full((3, 4), 1e-7)}, sink
    )
    assert [of.axes[0].get_title() for of in (by_layer, by_entropy)] == [
        "The height follows the layer of a head more than its entropy.",
        "The height follows the entropy of a head more than its layer.",
    ]
    heads, control = by_layer.axes  # a panel each: their heights are decades apart
    assert heads.get_ylim()[0] > 0.1 > control.get_ylim()[1]
