"""An execution asked for with another model or texts: who is refused, and what becomes of records and verdicts."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from analysis import asked, experiments
from analysis.data import texts
from analysis.models import checkpoints, parameters, pretrained
from analysis.surveys import records
from book.publish import ledger
from book.studies.semi_bias import gpt2 as semi_bias_gpt2
from tests.analysis.tiny import BERT, GPT2, write_model


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.setattr(asked, "_own", set())
    asked.forget()
    yield
    asked.forget()


@pytest.fixture
def shown(monkeypatch):
    """Collect what a cell displays, as text."""
    seen = []
    monkeypatch.setattr("IPython.display.display", lambda o: seen.append(o._repr_mimebundle_()["text/plain"]))
    return seen


def test_a_chapter_shows_its_own_model_unless_asked(tmp_path, monkeypatch):
    assert pretrained.chosen("minilm") == "minilm"
    assert not asked.departs()
    monkeypatch.setenv(asked.MODEL, str(write_model(tmp_path / "other", BERT)))
    assert pretrained.chosen("minilm") == str(tmp_path / "other")
    assert asked.departs()
    assert asked.describe() == "the model other"


def test_asking_for_the_chapters_own_model_is_no_departure(monkeypatch):
    monkeypatch.setenv(asked.MODEL, "minilm")
    assert pretrained.chosen("minilm") == "minilm"
    assert not asked.departs()


def test_a_model_of_another_family_is_refused_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv(asked.MODEL, str(write_model(tmp_path / "other", GPT2)))
    with pytest.raises(pretrained.WrongFamily, match=r"family bert, and .* is a gpt2"):
        pretrained.chosen("minilm")
    assert pretrained.chosen("minilm", ("bert", "gpt2")) == str(tmp_path / "other")


@pytest.mark.parametrize(("config", "without"), [(GPT2, "wte.weight"), (GPT2, "h.0.mlp.c_fc.weight"),
                                                 (BERT, "embeddings.word_embeddings.weight")])
def test_a_model_without_its_tokens_or_perceptrons_is_refused_where_it_must_run(tmp_path, monkeypatch, config, without):
    folder = write_model(tmp_path / "part", config)
    monkeypatch.setenv(asked.MODEL, str(folder))
    assert pretrained.chosen("minilm", ("bert", "gpt2")) == str(folder)
    kept = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if name != without}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(parameters.MissingTensor, match=f"lacks {without}"):
        pretrained.chosen("minilm", ("bert", "gpt2"))
    assert pretrained.chosen("minilm", ("bert", "gpt2"), whole=False) == str(folder)


def test_nothing_stands_in_for_a_model_that_was_asked_for(monkeypatch):
    monkeypatch.setenv(asked.MODEL, "gpt2")
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    with pytest.raises(checkpoints.NotFound, match="'gpt2' was asked for and is not here"):
        pretrained.chosen("gpt2-mini")
    monkeypatch.setenv(asked.MODEL, "no-such")
    with pytest.raises(checkpoints.NotFound, match="unknown model 'no-such'"):
        pretrained.chosen("gpt2-mini")


def test_texts_that_were_asked_for_are_read_and_a_count_is_the_most(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("one two\n\nthree\n\nfour five six")
    monkeypatch.setenv(asked.TEXTS, str(tmp_path / "mine.txt"))
    assert texts.passages(count=8) == ["one two", "three", "four five six"]
    assert texts.passages(count=2) == ["one two", "three"]
    assert asked.departs()
    assert asked.describe() == "the texts of mine.txt"
    with pytest.raises(ValueError, match="only 0 of 3"):
        texts.passages(longest=0)


def test_a_record_is_shown_and_said_to_be_the_books(monkeypatch):
    def never(_):
        raise AssertionError("was recomputed")
    spec = experiments.find("weighted-mean-gpt2")
    monkeypatch.setattr(experiments, "find", lambda _: spec.__class__(**{**spec.__dict__, "compute": never}))
    monkeypatch.setenv(asked.MODEL, "/somewhere/my-model")
    record, source = experiments.live_or_record("weighted-mean-gpt2")
    assert record.name == "weighted-mean-gpt2"
    assert "belong to the book's own inputs, gpt2, not to the model my-model" in source


def test_a_condition_that_fails_elsewhere_is_a_note_and_no_verdict(shown, monkeypatch, unchecked):
    with pytest.raises(AssertionError):
        ledger.verdict("K-01", "reproduced", "It is 3.", holds=False)
    monkeypatch.setenv(asked.MODEL, "/somewhere/my-model")
    ledger.verdict("K-01", "reproduced", "It is 3.", holds=False)
    ledger.verdict("K-01", "reproduced", "It is 4.", holds=float("nan"))
    ledger.verdict("K-01", "reproduced", "It is 5.", holds=True)
    assert [line.split(":")[0] for line in shown] == ["K-01 not here", "K-01 not here", "K-01 reproduced"]
    assert "With the model my-model what it rests on does not hold" in shown[0]
    assert "With the model my-model what it rests on cannot be told" in shown[1]
    with pytest.raises(ledger.BadLedger):
        ledger.verdict("Z-99", "reproduced", "It is 3.", holds=True)


def test_another_model_is_measured_where_the_chapter_can(tmp_path, monkeypatch):
    other = str(write_model(tmp_path / "other", {**GPT2, "n_positions": 40}))
    monkeypatch.setenv(asked.TEXTS, "mine.txt")
    measured = records.Result({"x": records.Value(3)})
    record, _ = experiments.live_or_record("semi-bias-gpt2", elsewhere=lambda: measured)
    assert record is not measured, "other texts are no other model"
    monkeypatch.delenv(asked.TEXTS)
    monkeypatch.setenv(asked.MODEL, other)
    record, source = experiments.live_or_record("semi-bias-gpt2", elsewhere=lambda: measured)
    assert record["x"] == 3
    assert source == "Computed just now with the model other; the book shows gpt2."


def test_the_semi_bias_is_measured_on_any_gpt2(tmp_path):
    found = checkpoints.find("other", folder=write_model(tmp_path / "other", {**GPT2, "n_positions": 40}))
    result = semi_bias_gpt2.measure(found, torch.device("cpu"))
    assert result.array("semi_raw").shape == (3, 40)
    assert result.array("mass_curve").shape[2] == 2
    assert max(result[f"error_{name}"] for name in ("attention", "output", "six_terms")) < 1e-12
    assert semi_bias_gpt2.near(1024) == 50
