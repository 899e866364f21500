"""The parts of logits add up to the model's own, and each is what the logits lose without it, the norm held fixed."""

import re

import pytest
import torch
from transformers import AutoModelForCausalLM

from analysis import load, pretrained
from analysis.core.precision import default_dtype
from analysis.models.families.table import FAMILIES
from analysis.models.families.tiny import EAGER, tiny_configuration, tiny_inputs, tiny_model
from analysis.surveys.layer_runs import InDouble
from analysis.surveys.logit_attribution import logit_parts

KINDS = [kind for row in FAMILIES for kind in row.model_types if not row.stack]
TOKENS = [3, 4, 5]


@pytest.fixture(autouse=True)
def in_double():
    with torch.no_grad(), default_dtype(torch.float64), InDouble():
        yield


def language_model(kind, **settings):
    model = AutoModelForCausalLM.from_config(tiny_configuration(kind, **settings), **EAGER).eval()
    torch.manual_seed(0)
    for parameter in model.requires_grad_(False).parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def split_or_refusal(kind):
    try:
        model = language_model(kind)
    except ValueError:
        pytest.skip("the library has no language model of the kind")
    ids = tiny_inputs(model)["input_ids"]
    try:
        return model(ids).logits[:, -1, TOKENS], logit_parts(model, ids, TOKENS), ""
    except ValueError as refusal:
        return None, None, str(refusal)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_add_up_to_the_logits_or_are_refused(kind):
    own, parts, refused = split_or_refusal(kind)
    if refused:
        assert re.search("norms its stream|is not the sum of|no norm of the kind|other layers write", refused)
    else:
        torch.testing.assert_close(parts.logits(), own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma2", "olmo2", "falcon", "gpt_neox", "phi", "mixtral"])
def test_the_usual_decoders_are_split(kind):
    own, parts, refused = split_or_refusal(kind)
    assert not refused
    assert parts.heads.shape == (len(own), 2, 4, len(TOKENS))
    assert (parts.soft_cap == 30) == (kind == "gemma2")
    assert all(part.any() for part in (parts.embedding, parts.heads, parts.mlps))


def test_the_part_of_a_head_of_the_last_layer_is_what_is_lost_without_it():
    """The stream without the head goes through the norm's formula by hand, with the divisor that the model had."""
    model = language_model("gpt2")
    ids = tiny_inputs(model)["input_ids"]
    parts = logit_parts(model, ids, TOKENS)
    before = model.transformer.ln_f.register_forward_pre_hook(lambda _, args: streams.append(args[0][:, -1]))
    streams = []
    model(ids)
    c_proj = model.transformer.h[1].attn.c_proj
    c_proj.register_forward_pre_hook(lambda _, args: written.append(args[0][:, -1, 8:16] @ c_proj.weight[8:16]))
    written = []
    model(ids)
    before.remove()
    norm, stream, head = model.transformer.ln_f, streams[0], written[0]
    centred = head - head.mean(-1, keepdim=True)
    lost = centred / (stream.var(-1, correction=0, keepdim=True) + norm.eps).sqrt() * norm.weight
    torch.testing.assert_close(parts.heads[:, 1, 1], lost @ model.lm_head.weight[TOKENS].T, rtol=0, atol=1e-12)


def test_a_model_by_name_and_a_text():
    parts = logit_parts(load("gpt2-mini", dtype=torch.float64), "To be or not to be, that is the")
    network = pretrained.load("gpt2-mini", task="lm", dtype=torch.float64)
    ids = load("gpt2-mini").encode("To be or not to be, that is the")["input_ids"]
    best = network(ids).logits[:, -1].max(-1)
    assert parts.tokens.item() == best.indices.item()
    torch.testing.assert_close(parts.logits()[:, 0], best.values, rtol=0, atol=1e-4)
    earlier = logit_parts(load(network), ids, [[5]], position=2)
    torch.testing.assert_close(earlier.logits(), network(ids).logits[:, 2, 5:6], rtol=0, atol=1e-4)


def test_what_cannot_be_split_is_refused():
    model = language_model("granite", residual_multiplier=0.5)
    ids = tiny_inputs(model)["input_ids"]
    with pytest.raises(ValueError, match="is not the sum of its attention and the output of one other module"):
        logit_parts(model, ids)
    with pytest.raises(ValueError, match="GPT2Model has no unembedding"):
        logit_parts(tiny_model("gpt2"), ids)
    model = language_model("llama")
    mask = torch.ones_like(ids)
    mask[0, -1] = 0
    with pytest.raises(ValueError, match="position -1 is padding"):
        logit_parts(model, {"input_ids": ids, "attention_mask": mask})
    with pytest.raises(ValueError, match=r"torch.bfloat16.* model\.float\(\) first"):
        logit_parts(model.bfloat16(), ids)
    with pytest.raises(ValueError, match="training mode"):
        logit_parts(model.float().train(), ids)
