"""Rows, forms and maps of a BERT, as the studies measure them, on inputs whose answer is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.bert_normality import rows, sums
from book.studies.bert_similarity import terms
from book.studies.text_and_code import classifier
from tests.book.studies.known import double, plain


def test_the_singular_value_after_the_width_of_a_head_is_nothing_but_rounding():
    W = double([3, 0], [0, 2], [0, 0])
    assert terms.singular_value_after(plain(3, W_Q=W, W_K=W, W_V=W, W_O=W.mT)) == pytest.approx(0, abs=1e-12)
    assert terms.singular_value_after(plain(2, W_Q=torch.eye(2), W_K=torch.eye(2))) == 0


def test_the_singular_value_after_is_over_the_largest(monkeypatch):
    """A layer whose channel is said to be narrower than its matrices: 4 over 10 in one head, 9 over 10 in the other."""
    heads = torch.stack([torch.diag(double(10, 4)), torch.diag(double(10, 9))])
    layer = SimpleNamespace(W_Q=heads, W_K=torch.eye(2).expand(2, 2, 2), channel=1)
    assert terms.singular_value_after(layer) == pytest.approx(0.9)


def test_a_layernorm_without_gain_leaves_the_statistic_of_a_row():
    g = torch.Generator().manual_seed(0)
    before = torch.randn(6, 64, generator=g).double() * 5 + 3
    bent = before.clone()
    bent[:3] = before[:3].sign() * 10  # two values only, as far from a Gaussian as can be
    stations = SimpleNamespace(before_first=before, first=bent)
    found = rows.measure_invariance(SimpleNamespace(stations={"trained": [stations]}), critical=0.2)
    assert found.__class__ is rows.Invariance
    numbers = list(vars(found).values())
    assert numbers[0] < 1e-9
    assert numbers[1] > 0.1
    assert numbers[2:] == [0, 0.5]


def test_the_share_above_a_critical_value_is_that_of_the_last_layer():
    assert rows._share_above(0.1, np.array([[0.9, 0.05], [0.9, 0.2], [0.0, 0.3], [0.0, 0.1]])) == 0.5


def test_padded_texts_are_compared_with_the_same_texts_unpadded():
    values = {"x": np.array([1.0, 3.0, 100.0]), "pad_x": np.array([5.0, 7.0])}
    assert rows._both(values, "x", np.mean) == {"without": 2, "with": 6}


def test_sums_of_independent_rows_are_not_uniform():
    found = sums._sum_independent(200, 2000)
    assert set(found) == {"Gaussian", "uniform"}
    for test in found.values():
        pvalue, statistic = vars(test).values()
        assert pvalue < 1e-6  # a bell between its ends is no straight line
        assert statistic < 1.4 / math.sqrt(2000)  # it is Gaussian


def test_drawn_sums_are_those_of_the_rows_of_a_layer():
    stations = [SimpleNamespace(second=double([1, 2], [3, 4])), SimpleNamespace(second=double([10, 0], [0, 1]))]
    control = [SimpleNamespace(second=double([9, 9])), SimpleNamespace(second=double([5, 6], [1, 1]))]
    found = sums._drawn_sums(SimpleNamespace(stations={"trained": stations, "control": control}, layers=[0, 1]))
    drawn = {name: (network, vector.tolist()) for name, (network, vector) in found.items()}
    assert drawn == {"layer 0": ("trained", [4, 6]), "layer 1": ("trained", [10, 1]), "control": ("control", [6, 7])}


def test_class_means_are_of_the_maps_as_the_code_draws_them(monkeypatch):
    """Two classes of two sequences each; every map of the first is even, of the second the identity or its turn."""
    even, eye = torch.full((1, 2, 2), 0.5), torch.eye(2)[None]
    maps = {"a": even, "b": even, "c": eye, "d": eye.flip(-1)}

    def run(model, of):
        return SimpleNamespace(keep=torch.ones(2), stations=[SimpleNamespace(attention=maps[of])])

    monkeypatch.setattr(classifier.survey, "run", run)
    monkeypatch.setattr(classifier, "encode", lambda data, gene: {"of": gene})
    monkeypatch.setattr(classifier.code, "blank_from", lambda maps, n: maps)
    monkeypatch.setattr(classifier.code, "value_entropy", lambda mean: mean.amax((-2, -1)))
    monkeypatch.setattr(classifier.code, "HIDDEN_BELOW", 0.6)
    genes = {"first": ["a", "b"], "second": ["c", "d"], "third": ["c", "c"]}
    found = classifier.survey_class_means(None, None, genes)
    assert found["mean_row_entropy"].flatten().tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert found["mean_value_entropy"].flatten().tolist() == [0.5, 0.5, 1]
    assert found["mean_seen"].flatten().tolist() == [0, 0, 1]
    assert found["mean_empty"].flatten().tolist() == [1, 1, 0]
    assert found["mean_empty"].shape == (3, 1, 1)


def test_measures_of_passages_are_stacked_by_name():
    found = classifier.stacked([{"x": np.array([1, 2])}, {"x": np.array([3, 4])}])
    assert found["x"].tolist() == [[1, 2], [3, 4]]
    assert classifier.tolerance("random/mean_value_entropy") == 0.05
    assert classifier.tolerance("trained/words") == 0
    assert classifier.tolerance("trained/anything") == 5e-3
