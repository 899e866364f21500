"""neox-mini: four variants that differ in one thing each, and a probe that reads their biases."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from analysis.data import texts
from book.lab.rotary_probe import make_probe
from book.lab.training import gpt2_mini, neox_mini

TINY = "\n\n".join(texts.passages(count=30)), "\n\n".join(texts.passages()[30:])


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpt2_mini, "BATCH", 4)
        patch.setattr(gpt2_mini, "WINDOWS", 4)
        yield


@pytest.fixture(scope="module")
def trained(small, tmp_path_factory):
    out, corpus = tmp_path_factory.mktemp("neox"), gpt2_mini.read_corpus(TINY)
    card = neox_mini.train(out, steps=12, seed=2, device="cpu", probe=make_probe(corpus.windows), corpus=corpus)
    return out, card


def test_the_probe_reads_biases_means_and_losses_of_every_layer(small):
    """Of a model whose parameters are all random: what the LayerNorm's bias makes of a weight is added to the bias."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = neox_mini.make_model(neox_mini.VARIANTS["neox-mini"]).eval()
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    windows = torch.arange(66 * 3).remainder(50).reshape(2, -1)
    found = make_probe(windows)(0, model)
    with torch.no_grad():
        states = model(windows[:, :-1], output_hidden_states=True).hidden_states
        own = model(windows[:, :-1]).logits.log_softmax(-1).gather(-1, windows[:, 1:, None]).mean()
    for i, block in enumerate(model.gpt_neox.layers):
        attention, norm = block.attention, block.input_layernorm
        weight, bias = attention.query_key_value.weight.detach(), attention.query_key_value.bias.detach()
        heads = len(bias) // 3 // attention.head_size
        folded = bias + (weight * norm.bias.detach()).sum(1)
        mean = norm(states[i]).detach().mean((0, 1)) @ weight.T + bias
        for name, vector in {"bias": bias, "bias_folded": folded, "mean": mean}.items():
            for k, part in enumerate(("query", "key")):
                for h in range(heads):
                    start = (3 * h + k) * attention.head_size
                    due = vector[start : start + attention.head_size]
                    np.testing.assert_allclose(found[f"{part}_{name}"][i, h], due, rtol=1e-4, atol=1e-5)
    for k, part in enumerate(("query", "key")):
        changed = deepcopy(model)
        with torch.no_grad():
            for block in changed.gpt_neox.layers:
                block.attention.query_key_value.bias.view(-1, 3, block.attention.head_size)[:, k] = 0
            logs = changed(windows[:, :-1]).logits.log_softmax(-1)
            loss = -logs.gather(-1, windows[:, 1:, None]).mean().item()
        assert found[f"held_out_no_{part}_bias"] == pytest.approx(loss, rel=1e-5)
        assert loss != pytest.approx(-own.item(), rel=1e-4)


def test_biases_begin_at_nought_and_are_learned(trained):
    card, trace = gpt2_mini.read_trace(trained[0])
    assert card == trained[1]
    assert card["name"] == "neox-mini"
    for part in ("query", "key"):
        bias = trace[f"{part}_bias"]
        assert bias.shape == (len(trace["step"]), 2, 8, 16)
        assert (bias[0] == 0).all()
        assert (bias[-1] != 0).any()
        assert trace[f"held_out_no_{part}_bias"][0] == pytest.approx(trace["held_out"][0], abs=1e-6)
    assert card["held_out_loss"] < trace["held_out"][0] - 0.1


def test_variants_differ_in_one_thing_each():
    models = {name: neox_mini.make_model(variant) for name, variant in neox_mini.VARIANTS.items()}
    turned = {name: model.gpt_neox.layers[0].attention.rotary_ndims for name, model in models.items()}
    assert turned == {**dict.fromkeys(models, 16), "neox-mini-partial": 4}
    biases = {name: [p for key, p in of.named_parameters() if key.endswith("bias")] for name, of in models.items()}
    free = {name: any(p.requires_grad for p in of) for name, of in biases.items()}
    assert free == {**dict.fromkeys(models, True), "neox-mini-unbiased": False}
    parallel = {name: model.gpt_neox.layers[1].use_parallel_residual for name, model in models.items()}
    assert parallel == {**dict.fromkeys(models, True), "neox-mini-sequential": False}


def test_in_sequence_the_mlp_reads_what_attention_has_added():
    names = "neox-mini", "neox-mini-sequential"
    plain, other = (neox_mini.make_model(neox_mini.VARIANTS[name], 16).eval() for name in names)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), other.parameters(), strict=True))
    block, read = other.gpt_neox.layers[0], {}
    for name in ("attention", "post_attention_layernorm"):
        getattr(block, name).register_forward_hook(
            lambda module, inputs, output, name=name: read.update({name: (inputs, output)})
        )
    block.register_forward_pre_hook(lambda module, inputs: read.update(block=inputs[0]))
    with torch.no_grad():
        other(torch.arange(8)[None])
    (stream,), _ = read["post_attention_layernorm"]
    assert torch.allclose(stream, read["block"] + read["attention"][1][0], atol=1e-6)
    assert (stream - read["block"]).abs().max() > 1e-3


def test_a_model_without_biases_keeps_none(tmp_path):
    neox_mini.train(tmp_path, "neox-mini-unbiased", steps=2, device="cpu", corpus=TINY)
    from safetensors.torch import load_file

    biases = {name: value for name, value in load_file(tmp_path / "model.safetensors").items() if "bias" in name}
    assert biases
    assert all((value == 0).all() for value in biases.values())
    assert "no biases anywhere" in (tmp_path / "README.md").read_text()


def test_another_model_does_not_go_on_from_a_state(tmp_path):
    neox_mini.train(tmp_path, steps=2, device="cpu", corpus=TINY)
    with pytest.raises(ValueError, match="another run"):
        neox_mini.train(tmp_path, "neox-mini-partial", steps=2, device="cpu", corpus=TINY)
