"""``python -m book train``: what it writes and prints, the device, whose folder it may write into, what is refused."""

import json

import numpy as np
import pytest

from analysis.core.files import claim_folder
from book.__main__ import main
from book.cli import train
from book.lab.dna.simulate import invent_backbones
from book.lab.training import dna_classifier, gpt2_mini


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Train a toy that writes one file, in an empty folder."""

    def write(out, **options):
        (out / "model.safetensors").write_text("of the toy")
        return {"seed": options.get("seed", 0)}

    monkeypatch.setitem(train.TRAINABLE, "induction", train.Recipe("a toy", write))
    monkeypatch.chdir(tmp_path)


def test_a_training_writes_into_a_folder_of_its_own_kind_only(toy, tmp_path, capsys):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "model.safetensors").write_text("of others")
    assert main(["train", "induction", "--out", "theirs"]) == 2
    assert "theirs holds what was not written here: model.safetensors" in capsys.readouterr().err
    assert (tmp_path / "theirs" / "model.safetensors").read_text() == "of others"
    assert main(["train", "induction"]) == main(["train", "induction", "--seed", "1"]) == 0
    with claim_folder("runs/induction", "training of induction"):
        assert main(["train", "induction"]) == 2
    assert "another training of induction is writing into runs/induction" in capsys.readouterr().err
    with claim_folder("runs/other", "census"):
        (tmp_path / "runs" / "other" / "a").touch()
    assert main(["train", "induction", "--out", "runs/other"]) == 2


def test_the_home_folder_is_meant_by_a_tilde_that_the_shell_left(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["train", "induction", "--out=~/results"]) == 0
    assert (tmp_path / "home" / "results" / "model.safetensors").exists()
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["induction", "--steps", "9" * 30], "--steps must be 1 to 10,000,000, got 9"),
        (["gpt2-mini", "--steps", "10000001"], "--steps must be 1 to 10,000,000, got 10000001"),
        (["variant-bert-mini", "--pretrain", "9" * 30], "--pretrain must be 0 to 10,000,000, got 9"),
        (["variant-bert-mini", "--batch", "1000000000"], "batch must be 1 to 2800, the number of sequences, got 10"),
        (["variant-bert-mini", "--batch", "9" * 30], "batch must be 1 to 2800"),
        (["induction", "--seed", "9" * 30], "--seed must be 0 to"),
        (["induction", "--seed", "-1"], "--seed must be 0 to 2**40 - 1"),
        (["induction", "--steps", "0"], "--steps must be 1 to 10,000,000, got 0"),
        (["gpt2-mini", "--backbones", "nowhere"], "--backbones is no setting of gpt2-mini"),
        (["induction", "--pretrain", "3"], "--pretrain is no setting of induction"),
    ],
)
def test_numbers_beyond_any_training_are_refused_before_anything_is_made(words, message, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(dna_classifier, "make_data", lambda *_: pytest.fail("made the data"))
    monkeypatch.setattr(gpt2_mini, "read_corpus", lambda *_: pytest.fail("read the corpus"))
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs" / words[0]).exists()


@pytest.fixture
def small(monkeypatch):
    """Let the command train two layers on a short gene."""
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=80, batch=4, warmup=2)
    monkeypatch.setattr(dna_classifier, "MINI", recipe)
    monkeypatch.setattr(dna_classifier, "invent_backbones", lambda seed: invent_backbones(seed, codons=60))
    return recipe


def test_train_prints_its_card_and_resumes(small, tmp_path, capsys, monkeypatch):
    command = ["train", "variant-bert-mini", "--steps", "6", "--seed", "3", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    said = capsys.readouterr().out
    for row in ("validation  0.", "test  0.", "seconds  ", "seed  3", "steps  6", "origin  synthetic gene"):
        assert row in said
    assert "ANALYSIS_FOLDER_VARIANT_BERT_MINI=" in said
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    monkeypatch.setattr(dna_classifier.loop, "_update", lambda *_: pytest.fail("a finished run was trained on"))
    assert main(command) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == model
    assert main([*command[:3], "5", *command[4:]]) == 2
    assert "is the state of another run (steps 6 there, 5 here)" in capsys.readouterr().err


def test_train_around_backbones_of_ones_own(small, tmp_path, capsys):
    lines = (f">{b.name} class={b.label}\n{b.aligned}\n" for b in invent_backbones(4, codons=60))
    (tmp_path / "own.fasta").write_text("".join(lines))
    out = tmp_path / "run"
    options = ["--steps", "2", "--out", str(out), "--backbones", str(tmp_path / "own.fasta")]
    assert main(["train", "variant-bert-mini", *options]) == 0
    assert "(own.fasta)" in json.loads((out / "report.json").read_text())["origin"]


def test_pretraining_from_the_command_line(small, tmp_path, capsys):
    assert main(["train", "variant-bert-mini", "--steps", "2", "--pretrain", "3", "--out", str(tmp_path)]) == 0
    assert "pretrain loss  " in capsys.readouterr().out
    with np.load(tmp_path / "trace.npz") as trace:
        assert (trace["loss"].shape, trace["pretrain_loss"].shape) == ((2,), (3,))


def test_a_diverging_run_ends_in_one_line(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dna_classifier, "MINI", dna_classifier.shortened(small, rate=float("inf")))
    assert main(["train", "variant-bert-mini", "--steps", "6", "--out", str(tmp_path)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "step/s" not in line and line.strip()]
    assert said[-1].startswith("error: ")  # the loss or, where the probe looks first, the attention
    assert "nan" in said[-1]
    assert not any("Traceback" in line for line in said)
    assert not (tmp_path / "model.safetensors").exists()
