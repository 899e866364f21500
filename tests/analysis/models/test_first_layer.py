"""GPT-2's first layer: what is bundled of it, what stands beside it, and what asks for more than there is."""

import pytest
import torch

from analysis.core.files import sha256
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import NotFound, find
from analysis.models.files import MissingTensor
from analysis.models.reading import load

NAME = "gpt2-first-layer"


@pytest.fixture
def bundled(monkeypatch):
    monkeypatch.delenv("ANALYSIS_SOURCES", raising=False)
    return find(NAME, sources=["bundled"])


@pytest.fixture
def whole():
    try:
        return find("gpt2", sources=["folder", "hub", "models"])
    except NotFound:
        pytest.skip("GPT-2 is not at hand")


def test_the_files_are_those_of_their_sums_and_the_weights_are_pinned(bundled):
    listed = dict(reversed(line.split()) for line in (bundled.folder / "SHA256SUMS").read_text().splitlines())
    files = {path.name: sha256(path) for path in bundled.folder.iterdir() if path.name != "SHA256SUMS"}
    assert files == listed
    assert checkpoints.KNOWN[NAME].sha256 == (files["model.safetensors"],)
    assert (bundled.folder / "model.safetensors").stat().st_size < 13e6


def test_the_licence_and_the_origin_stand_beside_it(bundled):
    licence = (bundled.folder / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith("Modified MIT License\n\nSoftware Copyright (c) 2019 OpenAI\n")
    assert "clearly indicate your content was created using GPT-2" in licence
    readme = (bundled.folder / "README.md").read_text(encoding="utf-8")
    assert checkpoints.KNOWN["gpt2"].sha256[1] in readme
    assert bundled.licence == "modified MIT (OpenAI)"


def test_the_whole_is_taken_where_it_is_at_hand(whole, bundled, monkeypatch):
    monkeypatch.setenv("ANALYSIS_FOLDER_GPT2", str(whole.folder))
    assert (find("gpt2").folder, find("gpt2").stands_in_for) == (whole.folder, None)
    assert find(NAME).folder == bundled.folder


def test_it_is_the_layer_of_the_whole_to_the_bit(whole, bundled):
    part, model = load(bundled), load(whole)
    ours, theirs = part.layers[0], model.layers[0]
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.equal(part.positions, model.positions)
    norm, same = part.norm("attention"), model.norm("attention")
    assert torch.equal(norm.gain, same.gain)
    assert torch.equal(norm.bias, same.bias)
    assert norm.eps == same.eps


def test_what_it_lacks_is_refused_by_name(bundled):
    part = load(bundled)
    assert part.tokens is None
    assert "wte.weight" in part.missing
    with pytest.raises(MissingTensor, match=r"gpt2-first-layer .* has no 'h\.0\.mlp\.c_fc\.weight'"):
        part.mlp(0)
    with pytest.raises(MissingTensor, match=r"gpt2-first-layer .* lacks 9 tensors .*: it can be read from, not run"):
        pretrained.load(bundled)
    with pytest.raises(NotFound, match="gpt2-first-layer has no tokenizer"):
        pretrained.tokenizer(bundled)
    with pytest.raises(IndexError, match=r"layer must be 0\.\.0, got 1"):
        part.layers[1]
