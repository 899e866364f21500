"""The surveys behind two chapters run on any BERT: here a tiny random one in a folder."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.data import texts
from analysis.maps import entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import run_layer
from book.studies.bert_normality import controls as normality_minilm
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


def test_a_head_that_is_made_uniform_is_judged_by_the_maps_it_had(folder, monkeypatch):
    monkeypatch.setattr(normality_minilm, "LONGEST_ABLATED", 16)
    found = normality_minilm.survey(folder, texts.passages(count=2))
    checkpoint = checkpoints.find(folder)
    model, tokenizer = pretrained.load(checkpoint), pretrained.tokenizer(checkpoint)
    short = extraction.hidden_states(model, tokenizer, texts.passages(count=2), 16)
    for i, states in enumerate(short):
        for level, layer in enumerate(load(model).encoder_layers()):
            maps = run_layer(states[level], layer).attention
            np.testing.assert_allclose(
                found["effect_entropy"][i, level], entropy.relative_entropy(maps).mean(-1), atol=1e-5
            )
            np.testing.assert_allclose(found["effect_sink"][i, level], maps[..., [0, -1]].sum(-1).mean(-1), atol=1e-5)
    assert np.abs(found["effect_sink"] - found["sink"]).min() > 1e-3  # of the whole texts it is another


def test_normality_survey_measures_every_text_layer_and_head(folder):
    passages = [*texts.passages(count=2), "A few words."]
    found = normality_minilm.survey(folder, passages)
    for prefix in ("", "control_"):
        assert found[prefix + "first_failing"].shape == (3, 2)
        assert found[prefix + "entropy"].shape == found[prefix + "effect"].shape == (3, 2, 3)
        assert (found[prefix + "cone"] <= found[prefix + "tokens"][:, None] * 24**0.5 + 1e-3).all()
        short = found[prefix + "tokens"] < 48
        assert (found[prefix + "pad_rows"] == 48).all()
        for key in ("cone", "D_sum", "first_failing", "entropy"):  # a text that fills the model has no padding
            padded, plain = found[prefix + "pad_" + key], found[prefix + key]
            np.testing.assert_allclose(padded[~short], plain[~short], atol=1e-4)
            if key in ("cone", "D_sum"):
                assert (np.abs(padded[short] - plain[short]).max(1) > 1e-3).all()
        assert all(np.isfinite(v).all() for v in found.values())
    np.testing.assert_allclose(
        found["resultant_bare"] * found["tokens"][:, None] * 24**0.5, found["cone_bare"], rtol=1e-4
    )  # rows of one length: both forms are the same


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("module", [normality_minilm])
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
