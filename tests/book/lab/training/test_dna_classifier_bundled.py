"""The bundled variant classifier is what its report says, and is not pretending to know real sequences."""

import json

import numpy as np
import pytest

from analysis.models import checkpoints
from book.lab.training import dna_classifier


@pytest.fixture(scope="module")
def bundled():
    return checkpoints.find("variant-bert-mini", sources=["bundled"])


@pytest.fixture(scope="module")
def report(bundled):
    return json.loads((bundled.folder / "report.json").read_text())


def test_the_report_is_of_this_recipe_and_of_the_invented_gene(report):
    recipe = json.loads(json.dumps(dna_classifier.asdict(dna_classifier.MINI)))
    assert report["recipe"].items() <= recipe.items()  # settings that came later stand at their defaults
    assert report["origin"] == "synthetic gene"
    assert min(report["validation"], report["test"]) >= 0.98


@pytest.mark.slow
def test_the_vocabulary_and_the_accuracy_are_those_of_the_data_made_anew(bundled):
    model, tokenizer, labels = dna_classifier.load(bundled.folder)
    data = dna_classifier.make_data(dna_classifier.MINI)
    assert tokenizer.get_vocab() == data.tokenizer.get_vocab()
    assert tuple(labels) == data.labels
    unseen = np.concatenate([data.parts.validation, data.parts.test])[::64]  # 14 sequences, each of which it knows
    assert dna_classifier.accuracy(model, data, unseen) == 1
    control = type(model)(model.config)
    assert dna_classifier.accuracy(control.eval(), data, unseen[::2]) < 0.5


def test_the_trace_ends_at_the_reported_validation(bundled, report):
    with np.load(bundled.folder / "trace.npz", allow_pickle=False) as trace:
        assert len(trace["loss"]) == trace["step"][-1] == report["steps"]
        assert trace["validation"][0] < 0.4  # near chance, an eighth
        assert trace["validation"][-1] == pytest.approx(report["validation"], abs=0.03)
        np.testing.assert_allclose(trace["gates"].sum(-1), 1, atol=1e-4)
