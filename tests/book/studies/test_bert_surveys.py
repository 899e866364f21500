"""The survey behind a chapter runs on any BERT: here a tiny random one in a folder."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.transformer.encoder import run_layer
from book.studies.bert_stream import minilm as stream_minilm
from tests.analysis.fake_device import GPU, pretended


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny-bert")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(
            BertConfig(
                num_hidden_layers=2,
                num_attention_heads=3,
                hidden_size=24,
                intermediate_size=48,
                max_position_embeddings=48,
            )
        ).save_pretrained(path)
    pretrained.tokenizer(checkpoints.find("minilm")).save_pretrained(path)
    return str(path)


def test_stream_survey_finds_what_the_architecture_forces(folder, monkeypatch):
    monkeypatch.setattr(stream_minilm, "SAMPLES", 400)
    found = stream_minilm.survey(folder, texts.passages(count=10))
    for prefix in ("", "control_"):
        coupling = found[prefix + "coupling"]
        np.testing.assert_allclose(coupling.sum((2, 3)), 1, rtol=1e-6)
        off = 1 - np.trace(coupling, axis1=2, axis2=3)
        assert off[:, 0].max() < 1e-9  # a skip connection keeps blocks apart
        assert off[:, 2].min() > 0.5  # W_O does not
        assert found[prefix + "read_back"].shape == (2, 8, 3)
        assert found[prefix + "additive_linear"] == pytest.approx(1, abs=0.2)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("module", [stream_minilm])
def test_a_survey_computes_on_the_device_it_is_given(folder, monkeypatch, module):
    passages, ran = texts.passages(count=3), set()

    def watched(x, *others, **options):
        ran.add(x.device.type)
        return run_layer(x, *others, **options)

    due = module.survey(folder, passages)
    monkeypatch.setattr(module, "run_layer", watched)
    with pretended():
        found = module.survey(folder, passages, device=GPU)
    assert ran == {GPU.type}
    for name, values in due.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-9, err_msg=name)
