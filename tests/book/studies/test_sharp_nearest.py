"""The fine-tuned classifier on a record of given arrays, and the ladder on documents."""

import numpy as np
import pytest

from analysis.maps.gates import GATES
from analysis.models.controls import RUNGS
from book.studies.shared import documents, nearest_classifier
from book.studies.shared.documents import CONTROLS, LADDER
from book.studies.shared.nearest_classifier import BY_LAYER, START
from tests.book.studies.known import record
from tests.book.studies.test_known_more_nearest import arrays


def test_panels_draw_a_measure_its_controls_and_its_start():
    given = arrays()
    for k, name in enumerate(BY_LAYER):
        given[name][...], given[f"start_{name}"][...], given[f"ladder_{name}"][...] = k, k + 100, k + 200
    given["entropy"] += np.arange(4) - 1.5  # no two heads are alike
    given["gates"][..., GATES.index("directional")] = 0.25
    given["ladder_gates"][2, 0, :, 1, :, GATES.index("cluster")] = 0.5
    found = nearest_classifier.summarise(record(**given)).panels()
    titles = {"rows that fail": "first_failing", "D of the sum": "D_sum", "mean cosine": "cosine"}
    titles |= {"largest value": "largest", "row entropy": "entropy"}
    for title, name in titles.items():
        ladder, start = found[title]
        k = BY_LAYER.index(name)
        assert ladder.trained[:, 0].tolist() == [k] * 3
        assert {rung: values.min() for rung, values in ladder.controls.items()} == dict.fromkeys(RUNGS, k + 200)
        assert start.max() == k + 100
    assert list(found) == [*titles, "columns and clusters"]
    gates, start = found["columns and clusters"]
    assert gates.trained.tolist() == pytest.approx([0.35] * 3)
    assert gates.controls[RUNGS[2]].tolist() == [[0, 0.5, 0], [0, 0, 0]]
    assert (set(gates.controls), start.tolist()) == (set(RUNGS), [[0] * 3] * 2)
    assert START not in found["mean cosine"][0].controls


def test_a_rise_is_a_rank_correlation_with_depth():
    given = arrays()
    given["cosine"][...] = [3, 1, 2]
    given["cosine"][0] = [1, 2, 3]
    found = nearest_classifier.summarise(record(**given))
    assert found.rises("cosine") == pytest.approx([1, *[-0.5] * (found.trainings - 1)])
    assert nearest_classifier.furthest_apart(np.array([[1.0, 5, 2], [4, 5, 0], [2, 5, 1]])) == 3


def test_a_ladder_of_documents_is_read_from_its_record(monkeypatch):
    values = np.arange(24 * 3 * 2.0).reshape(24, 3, 2)
    control = np.arange(len(LADDER) * 5 * 3 * 2.0).reshape(len(LADDER), 5, 3, 2)
    given = record(**{"x": values, "x" + CONTROLS: control})
    monkeypatch.setattr(documents, "live_or_record", lambda name, inputs, recompute: (given, f"{name} {recompute}"))
    found = documents.load_rungs("name", None, {"first": ("x", 0), "second": ("x", 1)})
    assert found.source == "name False"
    assert found["second"].documents.tolist() == values[..., 1].tolist()
    assert found["first"].controls[LADDER[2]].tolist() == control[2, ..., 0].tolist()
    assert set(found.ladders("first")) == {"first"}
    assert [layers[0] for layers in found["first"].by_kind.values()] == [15, 51, 87, 123]  # six documents a kind
    beyond = documents.DocumentLadder(
        np.array([[1.0, 1, 1], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]]),
        {"random": np.array([[0.5, 2.0, 1.2], [0.6, 3.0, 0.9]])},
    )
    assert beyond.beyond("random") == [0, 1]


def test_a_share_of_one_is_a_hundred_per_cent():
    given = arrays()
    given["first_failing"][...] = [1, 0.5, 0.25]
    given["gates"][...], given["start_gates"][...] = 0, 0
    for name in ("gates", "start_gates"):
        given[name][..., GATES.index("cluster")] = 0.125
    found = nearest_classifier.summarise(record(**given))
    assert found.failing_rows == "100, 50, 25"
    assert found.shares("first_failing") == "100, 50, 25 %"
    assert not found.clusters_at_start  # as often is not more often
    divided = nearest_classifier._divide(np.array([[3.0, 1], [2, 0], [5, 2]]), 0, 1)
    np.testing.assert_array_equal(divided, [3, np.nan, 2.5])


def test_a_ladder_that_touches_its_controls_is_not_beyond_them():
    ones = np.ones((4, 2))
    for others in ([[1.0, 1], [0, 0]], [[1, 1], [2, 2]]):
        assert documents.DocumentLadder(ones, {"random": np.array(others)}).beyond("random") == []
