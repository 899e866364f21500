"""gpt2-mini: a few steps lower the loss, an interruption changes nothing."""

import numpy as np
import pytest

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.__main__ import main
from book.experiments.semi_bias_emergence import settled
from book.lab.gpt2_mini_runs import semi_bias_probe
from book.lab.training import gpt2_mini

STEPS = 20
TINY = "\n\n".join(texts.passages(count=30)), "\n\n".join(texts.passages()[30:])


@pytest.fixture(scope="module", autouse=True)
def small():
    """Four sequences a step, so that a test takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpt2_mini, "BATCH", 4)
        patch.setattr(gpt2_mini, "WINDOWS", 8)
        yield


@pytest.fixture(scope="module")
def trained(small, tmp_path_factory):
    out = tmp_path_factory.mktemp("mini")
    return out, gpt2_mini.train(out, steps=STEPS, seed=3, device="cpu", probe=semi_bias_probe, corpus=TINY)


def test_a_few_steps_on_a_small_text_lower_the_loss(trained):
    out, card = trained
    read, trace = gpt2_mini.read_trace(out)
    assert read == card
    assert trace["step"].tolist() == gpt2_mini.looks(STEPS)
    assert trace["held_out"][0] == pytest.approx(np.log(2048), abs=0.2)
    assert trace["loss"][-1] < trace["loss"][0] - 0.8
    assert card["held_out_loss"] < trace["held_out"][0] - 0.8


def test_the_semi_bias_is_nought_before_training_and_not_after(trained):
    _, trace = gpt2_mini.read_trace(trained[0])
    assert np.isnan(trace["rank_correlation"][0]).all()
    assert (trace["size"][0] == 0).all()
    assert (trace["size"][-1] > 0).all()
    assert trace["rank_correlation"].shape == (len(trace["step"]), 2, 8)
    assert trace["semi_bias"].shape == (len(trace["step"]), 8, 128)


def test_the_folder_loads_in_transformers_and_says_its_digests(trained):
    out, card = trained
    found = checkpoints.find("gpt2-mini", folder=out)
    model, tokenizer = pretrained.load(found, task="lm"), pretrained.tokenizer(found)
    text = "A name can refer to various objects — at different times.\n\n    >>> x = 1\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer(text)["input_ids"] == gpt2_mini.encode(tokenizer, text).tolist()
    unseen = gpt2_mini.windows(gpt2_mini.encode(tokenizer, TINY[1]))
    assert gpt2_mini.evaluate(model, unseen) == pytest.approx(card["held_out_loss"], abs=1e-5)
    assert texts.digest(TINY[0]) in (out / "README.md").read_text()
    assert not list(out.glob(".part*"))


def test_another_seed_is_another_model(trained, tmp_path):
    gpt2_mini.train(tmp_path, steps=1, seed=4, device="cpu", corpus=TINY)
    assert (tmp_path / "model.safetensors").read_bytes() != (trained[0] / "model.safetensors").read_bytes()
    assert gpt2_mini.read_trace(tmp_path)[1].keys() == {"step", "loss", "held_out"}


def test_what_cannot_be_trained_is_refused_before_it_starts(tmp_path):
    with pytest.raises(ValueError, match="more than 128 tokens, got 1"):
        gpt2_mini.train(tmp_path, steps=1, device="cpu", corpus=("a", TINY[1]))
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write to"):
        gpt2_mini.train(tmp_path / "file", steps=1, device="cpu", corpus=TINY)
    with pytest.raises(FileNotFoundError, match=r"has no trace\.npz"):
        gpt2_mini.read_trace(tmp_path)


@pytest.mark.slow
def test_the_command_line_trains_goes_on_and_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(texts, "corpus", lambda held_out=False: TINY[held_out])
    given = ["train", "gpt2-mini", "--steps", "3", "--out", str(tmp_path), "--device", "cpu"]
    assert main(given) == 0
    said = capsys.readouterr().out
    assert "after      0 steps: held-out loss" in said
    assert "held out loss" in said
    assert f"ANALYSIS_FOLDER_GPT2_MINI={tmp_path}" in said
    assert main(given) == 0
    assert "steps: held-out loss" not in capsys.readouterr().out
    assert main([*given, "--seed", "1"]) == 2
    assert "another run (seed 0 there, 1 here)" in capsys.readouterr().err
    assert main([*given, "--seed", "1", "--fresh"]) == 0
    with pytest.raises(SystemExit):
        main(["train", "gpt-5"])
    assert "gpt2-mini" in capsys.readouterr().err


def test_settled_wants_it_for_good():
    rho = np.array([[0.0, 0.0], [0.9, 0.9], [0.1, 0.2], [0.9, 0.0], [0.8, 0.7]])
    steps = np.array([0, 1, 2, 4, 8])
    assert settled(steps, rho) == 4
    assert settled(steps[:3], rho[:3]) == -1
    assert settled(steps, np.full((5, 2), np.nan)) == -1
