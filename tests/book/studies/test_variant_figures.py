"""Figures of the variant classifier: that they show what they are given."""

import numpy as np
import pytest

from analysis.maps.gates import GATES
from analysis.plotting import layers
from book.studies.bert_normality import figures as normality
from book.studies.variant_classifier import figures

RNG = np.random.default_rng(0)


def test_the_leak_names_classes_and_shares():
    figure = figures.leak(["A", "B"], np.zeros((2, 40)), [3810, 3822], np.array([[0, 5], [10, 0]]))
    left, right = figure.axes[:2]
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["A", "B"]
    assert sorted(text.get_text() for text in right.texts) == ["100", "100"]


def test_accuracies_draw_every_interval():
    figure = figures.accuracies({"words": [(0.9, 0.8, 0.95)] * 3, "BERT": [(1.0, 0.9, 1.0)]}, ("a", "b", "c"), ["BERT"])
    lines = figure.axes[0].lines
    assert len(lines) == 2 * 4
    assert lines[0].get_xdata() == pytest.approx([80, 95])
    assert lines[-1].get_color() != lines[0].get_color()


def test_enrichment_draws_chance_and_interval():
    rows = [(1.5, 1.2, 1.8, 0.9, 1.1)] * 2
    figure = figures.enrichment({"columns": {"trained": rows, "control": rows}}, ("site", "rare"))
    assert len(figure.axes[0].lines) == 1 + 3 * 4
    assert figure.axes[0].lines[1].get_xdata() == pytest.approx([0.9, 1.1])


def test_along_the_gene_marks_what_is_marked_and_draws_the_control_on_the_same_scale():
    marked = RNG.random((2, 30)) < 0.2
    values = {"trained": RNG.random((2, 30)), "control": RNG.random((2, 28)) / 100}  # a shorter record
    figure = figures.along_gene(values, marked, ["A", "B"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "B"]
    panel = figure.axes[0]
    plain, strong = panel.collections
    assert (len(plain.get_segments()), len(strong.get_segments())) == ((~marked[0]).sum(), marked[0].sum())
    assert strong.get_segments()[0][1][1] == pytest.approx(100 * values["trained"][0, marked[0]][0])
    assert panel.lines[-1].get_ydata() == pytest.approx(100 * values["control"][0])


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


def test_failing_rows_are_drawn_by_seed_and_by_variant():
    trained, control = RNG.random((2, 4, 3)), RNG.random((2, 4, 3))
    figure = figures.failing_rows(trained, control, {"trained, seed 0": trained[0], "plain rows": control[0]})
    seeds, variants = figure.axes
    assert [line.get_label() for line in seeds.lines] == [
        "control, seed 0",
        "trained, seed 0",
        "control, seed 1",
        "trained, seed 1",
        "level of the test",
    ]
    assert variants.lines[1].get_ydata() == pytest.approx(control[0].mean(0))
    assert (variants.lines[1].get_color(), variants.lines[1].get_linestyle()) == (figures.style.COLOURS["trained"], ":")


def test_training_norms_values_and_tables():
    figure = figures.training(np.ones((2, 45)), np.array([[0, 40]] * 2), np.array([[0.1, 1.0]] * 2))
    assert len(figure.axes[0].lines[0].get_xdata()) == 4
    assert figure.axes[1].lines[0].get_ydata().tolist() == [10, 100]
    rows = {which: RNG.random((4, 20)) for which in ("trained", "control")}
    assert [axes.get_title() for axes in figures.norms(rows).axes] == [f"rows of {kind}" for kind in "QKV"]
    table = figures.percentages({"one": np.eye(2)}, ["A", "B"], ["test", "new"])
    assert [text.get_text() for text in table.axes[0].texts] == ["100", "0", "0", "100"]
    values = figures.singular_values(
        {
            "head": {"trained": np.array([1.0, 3.0, 2.0]), "control": np.ones(3)},
            "other": {"trained": np.ones(5), "control": np.ones(5)},
        }
    )
    assert [line.get_ydata().tolist() for line in values.axes[0].lines] == [[1, 1, 1], [3, 2, 1]]
