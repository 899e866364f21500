"""Figures of the variant classifier: that they show what they are given."""

import numpy as np
import pytest

from analysis.figures import variants as figures
from analysis.gates import GATES

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


def test_along_the_gene_marks_what_is_marked():
    values, marked = RNG.random((2, 30)), RNG.random((2, 30)) < 0.2
    figure = figures.along_gene(values, marked, ["A", "B"])
    plain, strong = figure.axes[0].collections
    assert (len(plain.get_segments()), len(strong.get_segments())) == ((~marked[0]).sum(), marked[0].sum())


def test_emergence_draws_seeds_and_layers():
    steps, gates = np.array([[0, 5, 9]] * 3), RNG.random((3, 3, 4, len(GATES)))
    figure = figures.emergence(steps, {"cone": RNG.random((3, 3, 4))}, gates, ("directional", "cluster"))
    cone, shares = figure.axes
    assert len(cone.lines) == 4
    assert len(shares.lines) == 6
    assert shares.lines[0].get_ydata() == pytest.approx(100 * gates[0, :, :, 0].mean(1))


def test_training_norms_values_and_tables():
    figure = figures.training(np.ones((2, 45)), np.array([[0, 40]] * 2), np.array([[0.1, 1.0]] * 2))
    assert len(figure.axes[0].lines[0].get_xdata()) == 4
    assert figure.axes[1].lines[0].get_ydata().tolist() == [10, 100]
    rows = {which: RNG.random((4, 20)) for which in ("trained", "control")}
    assert [axes.get_title() for axes in figures.norms(rows).axes] == [f"rows of {kind}" for kind in "XQKV"]
    table = figures.by_class({"one": np.eye(2)}, ["A", "B"], ["test", "new"])
    assert [text.get_text() for text in table.axes[0].texts] == ["100", "0", "0", "100"]
    values = figures.singular_values({"head": {"trained": np.ones(5), "control": np.zeros(5)}, "other": {
        "trained": np.ones(5), "control": np.zeros(5)}})
    assert sum(patch.get_height() for patch in values.axes[0].patches) == 10
