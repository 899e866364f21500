"""What a chapter is executed with: which models are refused, what texts are read, and what becomes of a record."""

from dataclasses import replace

import pytest
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.files import MissingTensor
from book.publish import experiments, records, stamp
from book.publish import inputs as publish_inputs
from book.publish.inputs import Inputs, choose_inputs
from tests.analysis.tiny import BERT, GPT2, change_tensors, write_model

BOTH = ("bert", "gpt2")


def test_the_books_own_inputs_are_no_departure():
    inputs = choose_inputs("minilm", own="minilm", device="cpu")
    assert not inputs.other_model
    assert not inputs.departs
    assert inputs.describe() == "the book's own inputs"
    assert inputs.device == torch.device("cpu")
    assert not choose_inputs(device="cpu").departs, "a chapter without a model"


def test_another_model_is_named_by_its_folder(tmp_path):
    inputs = choose_inputs(str(write_model(tmp_path / "other", BERT)), own="minilm", device="cpu")
    assert inputs.other_model
    assert inputs.departs
    assert inputs.describe() == "the model other"


def test_other_texts_are_a_departure_and_no_other_model(tmp_path):
    inputs = choose_inputs("minilm", own="minilm", texts=tmp_path / "mine.txt", device="cpu")
    assert inputs.departs
    assert not inputs.other_model
    assert inputs.describe() == "the texts of mine.txt"
    assert replace(inputs, model="a/b").describe() == "the model b and the texts of mine.txt"


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_the_device_is_chosen_by_name(name, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert choose_inputs(device=name).device.type == {"auto": "cuda", "cpu": "cpu"}[name]


def test_the_stamp_names_the_device_of_the_inputs_and_not_another_that_is_there(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _: "Some GPU")
    monkeypatch.setattr(publish_inputs, "_chosen", [])
    assert "; Some GPU; " in stamp()
    choose_inputs(device="cpu")
    assert "; cpu; " in stamp()


def test_a_device_that_is_none_is_refused_before_the_model_is_looked_at(monkeypatch):
    monkeypatch.setattr(pretrained, "check_choice", lambda *_, **__: pytest.fail("the model was looked at"))
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got 'tpu'"):
        choose_inputs("other", own="minilm", device="tpu")


def test_a_model_of_another_family_is_refused_with_the_reason(tmp_path):
    other = str(write_model(tmp_path / "other", GPT2))
    with pytest.raises(pretrained.WrongFamily, match=r"family bert, and .* is a gpt2"):
        choose_inputs(other, own="minilm", device="cpu")
    assert choose_inputs(other, own="minilm", device="cpu", families=BOTH).model == other


@pytest.mark.parametrize(
    ("config", "without"),
    [(GPT2, "wte.weight"), (GPT2, "h.0.mlp.c_fc.weight"), (BERT, "embeddings.word_embeddings.weight")],
)
def test_a_model_without_its_tokens_or_mlps_is_refused_where_it_must_run(tmp_path, config, without):
    folder = write_model(tmp_path / "part", config)
    assert choose_inputs(str(folder), own="minilm", device="cpu", families=BOTH).other_model
    change_tensors(folder, lambda tensors: {name: tensors[name] for name in tensors if name != without})
    with pytest.raises(MissingTensor, match=f"lacks '?{without}"):
        choose_inputs(str(folder), own="minilm", device="cpu", families=BOTH)
    assert choose_inputs(str(folder), own="minilm", device="cpu", families=BOTH, whole=False).other_model


def test_nothing_stands_in_for_a_model_that_a_reader_names(monkeypatch, tmp_path):
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    with pytest.raises(checkpoints.NotFound, match="'gpt2' is in none of bundled"):
        choose_inputs("gpt2", own="gpt2-mini", device="cpu")
    with pytest.raises(checkpoints.NotFound, match="unknown model 'no-such'"):
        choose_inputs("no-such", own="gpt2-mini", device="cpu")
    own = str(write_model(tmp_path / "own", GPT2))  # where the book's own is not here, its stand-in says the family
    assert choose_inputs(own, own="gpt2", device="cpu", whole=False).other_model


def test_a_readers_texts_are_read_and_a_count_is_the_most(tmp_path):
    source = tmp_path / "mine.txt"
    source.write_text("one two\n\nthree\n\nfour five six")
    assert texts.passages(count=8, source=source) == ["one two", "three", "four five six"]
    assert texts.passages(count=2, source=source) == ["one two", "three"]
    with pytest.raises(ValueError, match="only 0 of 3"):
        texts.passages(longest=0, source=source)


@pytest.fixture
def recorded(monkeypatch):
    """Return an experiment with a record, whose recomputation fails the test unless it is replaced."""
    spec = experiments.find("weighted-mean-gpt2")

    def use(compute=lambda _: pytest.fail("was recomputed"), **changes):
        monkeypatch.setattr(experiments, "find", lambda _: replace(spec, compute=compute, **changes))
        return experiments.load(spec.name)

    use()
    return use


def test_a_record_is_shown_and_said_to_be_the_books(recorded):
    record, source = experiments.live_or_record("weighted-mean-gpt2", Inputs("/somewhere/my-model", "gpt2"))
    assert record.name == "weighted-mean-gpt2"
    assert "belong to the book's own inputs, gpt2, not to the model my-model" in source


def test_a_record_is_recomputed_on_the_device_of_the_execution(recorded):
    devices, record = [], recorded()

    def compute(device):
        devices.append(device)
        return records.Result(record.values, record.arrays, record.tolerances)

    recorded(compute, models=(), data=(), minutes=0.1)
    inputs = Inputs("gpt2", "gpt2", device=torch.device("meta"))
    assert "Recomputed just now from scratch" in experiments.live_or_record("weighted-mean-gpt2", inputs)[1]
    assert devices == [torch.device("meta")]


@pytest.mark.parametrize(
    ("changes", "recompute", "sentence"),
    [
        ({"models": (), "data": (), "minutes": 3}, None, "repeats it"),
        ({"models": (), "data": (), "minutes": 0.1}, False, "repeats it"),
        ({"models": ("no-such",), "minutes": 0.1}, None, "recomputing it needs model no-such"),
    ],
)
def test_a_record_is_shown_where_it_takes_long_or_lacks_its_inputs(recorded, changes, recompute, sentence):
    recorded(**changes)
    _, source = experiments.live_or_record("weighted-mean-gpt2", Inputs("gpt2", "gpt2"), recompute=recompute)
    assert source.startswith("Shown from the record weighted-mean-gpt2 (recorded on ")
    assert sentence in source


def test_another_model_is_measured_where_the_chapter_can(tmp_path):
    other = str(write_model(tmp_path / "other", {**GPT2, "n_positions": 40}))
    measured = records.Result({"x": records.Value(3)})
    with_texts = Inputs("gpt2", "gpt2", "mine.txt")
    record, _ = experiments.live_or_record("semi-bias-gpt2", with_texts, elsewhere=lambda: measured)
    assert record is not measured, "other texts are no other model"
    record, source = experiments.live_or_record("semi-bias-gpt2", Inputs(other, "gpt2"), elsewhere=lambda: measured)
    assert record["x"] == 3
    assert source == "Computed just now with the model other; the book shows gpt2."
