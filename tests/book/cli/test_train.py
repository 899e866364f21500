"""``python -m book train``: what it writes and prints, whose folder it may write into, what is refused."""

import contextlib
import json

import numpy as np
import pytest

from analysis.core.files import claim_folder
from book.__main__ import main
from book.lab.dna.simulate import invent_backbones


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which one step of a real training was done."""
    folder = tmp_path_factory.mktemp("here")
    with contextlib.chdir(folder):
        assert main(["train", "induction", "--steps", "1"]) == 0
    return folder


def test_a_training_writes_into_a_folder_of_its_own_kind_only(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    (trained / "theirs").mkdir()
    (trained / "theirs" / "model.safetensors").write_text("of others")
    assert main(["train", "induction", "--out", "theirs"]) == 2
    assert "theirs holds what was not written here: model.safetensors" in capsys.readouterr().err
    assert (trained / "theirs" / "model.safetensors").read_text() == "of others"
    with claim_folder("runs/induction", "training of induction"):
        assert main(["train", "induction"]) == 2
    assert "another training of induction is writing into runs/induction" in capsys.readouterr().err
    with claim_folder("runs/other", "census"):
        (trained / "runs" / "other" / "a").touch()
    assert main(["train", "induction", "--out", "runs/other"]) == 2


def test_a_finished_run_prints_its_card_again_and_another_is_refused(trained, monkeypatch, capsys):
    """In the home folder, which is meant by a tilde that the shell left."""
    monkeypatch.setenv("HOME", str(trained))
    model = (trained / "runs" / "induction" / "model.safetensors").read_bytes()
    assert main(["train", "induction", "--steps", "1", "--out=~/runs/induction"]) == 0
    said = capsys.readouterr().out
    for row in ("steps  1", "seed  0", "prefix matching  0.", "ANALYSIS_FOLDER_INDUCTION="):
        assert row in said
    assert (trained / "runs" / "induction" / "model.safetensors").read_bytes() == model
    assert main(["train", "induction", "--steps", "2", "--out=~/runs/induction"]) == 2
    assert "is the state of another run (steps 1 there, 2 here)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["induction", "--steps", "9" * 30], "--steps must be 1 to 10,000,000, got 9"),
        (["gpt2-mini", "--steps", "10000001"], "--steps must be 1 to 10,000,000, got 10000001"),
        (["variant-bert-mini", "--pretrain", "9" * 30], "--pretrain must be 0 to 10,000,000, got 9"),
        (["variant-bert-mini", "--batch", "1000000000"], "batch must be 1 to 2800, the number of sequences, got 10"),
        (["induction", "--seed", "9" * 30], "--seed must be 0 to"),
        (["induction", "--seed", "-1"], "--seed must be 0 to 2**40 - 1"),
        (["induction", "--steps", "0"], "--steps must be 1 to 10,000,000, got 0"),
        (["gpt2-mini", "--backbones", "nowhere"], "--backbones is no setting of gpt2-mini"),
    ],
)
def test_numbers_beyond_any_training_are_refused_before_anything_is_made(words, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs" / words[0]).exists()


@pytest.mark.slow
def test_a_classifier_is_trained_around_backbones_of_ones_own_with_words_to_guess_before(tmp_path, capsys):
    lines = (f">{b.name} class={b.label}\n{b.aligned}\n" for b in invent_backbones(4, codons=30))
    (tmp_path / "own.fasta").write_text("".join(lines))
    out, options = tmp_path / "run", ["--steps", "2", "--pretrain", "3", "--backbones", str(tmp_path / "own.fasta")]
    assert main(["train", "variant-bert-mini", "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    for row in ("validation  0.", "test  0.", "seconds  ", "pretrain loss  ", "ANALYSIS_FOLDER_VARIANT_BERT_MINI="):
        assert row in said
    assert "(own.fasta)" in json.loads((out / "report.json").read_text())["origin"]
    with np.load(out / "trace.npz") as trace:
        assert (trace["loss"].shape, trace["pretrain_loss"].shape) == ((2,), (3,))
