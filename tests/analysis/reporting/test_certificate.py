"""A certificate from the command line: numbers, page, badge and exit status; green, red, and what is not covered."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from analysis.__main__ import main
from analysis.models.families.tiny import tiny_model
from analysis.models.reading import Model

GREEN, RED = "#2a7d3f", "#b3261e"


def certificate(model, out):
    """Run the command; return its status, the numbers, the page and the badge."""
    status = main(["report", str(model), "--certify", "--out", str(out)])
    texts = [(out / name).read_text(encoding="utf-8") for name in ("certificate.json", "index.html", "badge.svg")]
    return status, json.loads(texts[0]), *texts[1:]


@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini", "minilm"])
def test_a_real_model_is_certified(name, tmp_path):
    status, numbers, page, badge = certificate(name, tmp_path)
    assert status == 0
    assert numbers["certified"]
    assert numbers["failures"] == []
    assert [stack["dtype"] for stack in numbers["stacks"]] == ["float32", "float64"]
    for stack, largest in zip(numbers["stacks"], (1e-5, 1e-14), strict=True):
        for errors in stack["errors, by layer and head"].values():
            assert max(max(layer) for of in errors.values() for layer in of) < largest
    assert re.match("a text that begins .* 32 tokens", numbers["provenance"]["Run on"])
    assert re.fullmatch("[0-9a-f]{64}", numbers["provenance"]["sha256 of model.safetensors"])
    assert GREEN in badge
    assert numbers["sentence"] in badge
    assert numbers["sentence"] in page
    assert "cache of keys" in page
    assert ElementTree.fromstring(badge).get("aria-label") == numbers["sentence"]
    assert not re.search(r'(?:src|href)="https?:|@import', page), "asks for something outside of the page"


def test_a_changed_sign_is_red_and_ends_the_command_with_1(tmp_path, monkeypatch):
    read = Model.read_layer

    def turned(self, layer):
        found = read(self, layer)
        b_Q = found.b_Q.clone()
        b_Q[5] *= -1
        return replace(found, b_Q=b_Q) if layer == 1 else found

    monkeypatch.setattr(Model, "read_layer", turned)
    status, numbers, page, badge = certificate("gpt2-mini", tmp_path)
    assert (status, numbers["certified"]) == (1, False)
    for text in (numbers["sentence"], page, badge):
        assert "parts do not sum: layer 1 head 5, " in text
    assert RED in badge


@pytest.mark.parametrize(
    ("model_type", "stacks", "said"),
    [
        ("t5", {"encoder", "decoder"}, "Attention of the decoder to the encoder"),
        ("whisper", {"encoder", "decoder"}, "noise in the place of input features"),
        ("vit", {""}, "such as layers.0.mlp.fc1.weight): they counted as zero"),
        ("mistral", {""}, "random ids (no tokenizer)"),
    ],
)
def test_what_was_run_and_what_is_not_covered_is_said(model_type, stacks, said, tmp_path):
    settings = {"sliding_window": 40} if model_type == "mistral" else {}
    tiny_model(model_type, **settings).float().save_pretrained(tmp_path / "model")
    status, numbers, page, _ = certificate(tmp_path / "model", tmp_path / "out")
    assert status == 0
    assert {stack["stack"] for stack in numbers["stacks"]} == stacks
    assert said in page
    assert ("Windows that reach further than that: 39 tokens" in page) == (model_type == "mistral")


def test_a_text_of_ones_own_is_run_and_what_has_no_meaning_is_refused(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("A text of one's own.", encoding="utf-8")
    words = ["report", "gpt2-mini", "--certify", "--out", str(tmp_path / "out")]
    assert main([*words, "--texts", str(tmp_path / "text.txt")]) == 0
    assert "A text of one&#x27;s own." in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert main([*words, "--weights-only"]) == 2
    assert "--weights-only has no meaning with --certify" in capsys.readouterr().err


def test_half_precision_runs_as_it_is_stored(tmp_path):
    dtype = "bfloat16"
    tiny_model("llama").to(getattr(torch, dtype)).save_pretrained(tmp_path / "model")
    status, numbers, _, _ = certificate(tmp_path / "model", tmp_path / "out")
    assert status == 0
    assert [stack["dtype"] for stack in numbers["stacks"]] == [dtype, "float64"]
    eps = torch.finfo(getattr(torch, dtype)).eps
    assert numbers["stacks"][0]["largest error allowed, by layer"] == pytest.approx([eps**0.5] * 2)
