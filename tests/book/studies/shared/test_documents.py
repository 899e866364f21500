"""The ladder on documents: what is averaged, over which units, and where a control is left behind."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import SEEDS
from book.lab.documents import KINDS, load_documents
from book.publish.records import Result
from book.studies.shared import documents
from book.studies.shared.documents import CONTROLS, LADDER, DocumentLadder, read_ladder, survey_documents

LADDER_OF_TWO = DocumentLadder(
    np.repeat(np.array([[1.0, 5.0]]), 24, axis=0) + np.linspace(-0.1, 0.1, 24)[:, None],
    {"random": np.array([[0.9, 1.0], [1.1, 2.0]])},
)


def test_the_interval_is_over_documents_and_contains_the_mean():
    (first, low, high), _ = LADDER_OF_TWO.interval
    assert first == pytest.approx(1.0)
    assert low < 1.0 < high < 1.1


def test_beyond_names_the_layers_that_leave_the_range_of_the_seeds():
    assert LADDER_OF_TWO.beyond("random") == [1]


def test_kinds_are_six_documents_each():
    assert [round(float(layers[0]), 3) for layers in LADDER_OF_TWO.by_kind.values()] == [0.922, 0.974, 1.026, 1.078]


def test_a_sum_of_ladders_adds_documents_and_controls():
    total = LADDER_OF_TWO + LADDER_OF_TWO
    assert np.array_equal(total.documents, 2 * LADDER_OF_TWO.documents)
    assert np.array_equal(total.controls["random"], 2 * LADDER_OF_TWO.controls["random"])


def test_places_choose_behind_the_layers():
    arrays = {"x": np.arange(12.0).reshape(2, 3, 2), "x" + CONTROLS: np.zeros((len(LADDER), 5, 3, 2))}
    assert read_ladder(Result({}, arrays), "x", 1).documents.tolist() == [[1, 3, 5], [7, 9, 11]]


def test_a_survey_keeps_documents_of_the_trained_network_and_sorts_controls_by_rung(monkeypatch):
    class Network:
        def __init__(self, name):
            self.name = name

    monkeypatch.setattr(documents.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(documents.pretrained, "load", lambda checkpoint, **options: Network(options["control_seed"]))
    monkeypatch.setattr(
        documents,
        "make_controls",
        lambda trained, load, rungs: (
            type("Control", (), {"network": Network((rung, seed))}) for seed in SEEDS for rung in rungs
        ),
    )

    def measure(network, text, trained):
        assert trained.name is None
        at = [0.0, len(text)] if network.name is None else [LADDER.index(network.name[0]), network.name[1]]
        return {"x": np.array(at)}

    result = survey_documents(measure, each_of_controls=1, device=torch.device("cpu"))
    assert result.array("x").shape == (24, 2)
    controls = result.array("x" + CONTROLS)
    assert controls[..., 0].tolist() == [[float(rung)] * 5 for rung in range(4)]
    assert controls[0, :, 1].tolist() == [0, 1, 2, 3, 4]


def test_controls_read_the_first_documents_of_each_kind_and_are_averaged_over_them(monkeypatch):
    monkeypatch.setattr(documents.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(documents.pretrained, "load", lambda checkpoint, **options: options["control_seed"])
    controls = [SimpleNamespace(network=seed) for seed in SEEDS for _ in LADDER]
    monkeypatch.setattr(documents, "make_controls", lambda trained, load, rungs: controls)
    found = survey_documents(lambda network, text, _: {"x": np.array([len(text)])}, each=2, each_of_controls=1)
    every = [len(document.text) for document in load_documents(each=2)]
    first = [len(document.text) for document in load_documents(each=1)]
    assert (len(every), len(first)) == (2 * len(first), len(KINDS))
    assert found.array("x").ravel().tolist() == every
    assert found.array("x" + CONTROLS).ravel().tolist() == pytest.approx([np.mean(first)] * 20)
    assert np.mean(first) != np.mean(every)
