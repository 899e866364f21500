"""The experiment that asks SmolLM2 again, on a tiny Llama; rounding against the library that wrote the file."""

import math

import pytest
import torch

from book.experiments import smollm2_findings as experiment
from book.lab import smollm2
from tests.analysis.tiny import random_llama


@pytest.fixture(scope="module")
def network():
    return random_llama(num_hidden_layers=3, initializer_range=0.3)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(60, (3, 10), generator=torch.Generator().manual_seed(0))


def test_parts_sum_to_the_divergence_of_the_models_own_maps(network, ids):
    maps = torch.stack(network(ids, output_attentions=True).attentions).double()
    entropy = -(maps * maps.clamp_min(1e-30).log()).sum(-1)[..., 1:]
    most = torch.arange(2, 11).double().log()
    found = experiment.measure(network, ids)
    torch.testing.assert_close(torch.from_numpy(found["entropy"]), (entropy / most).mean((1, 3)), rtol=0, atol=1e-5)
    parts, due = torch.from_numpy(found["parts"].sum(-1)), (most - entropy)[:, : experiment.SPLIT].mean((1, 3))
    torch.testing.assert_close(parts, due, rtol=0, atol=1e-5)
    later = maps[..., 2:, 1:] / maps[..., 2:, 1:].sum(-1, keepdim=True)  # without the first token
    divergence = torch.arange(2, 10).double().log() + (later * later.clamp_min(1e-30).log()).sum(-1)
    parts, due = torch.from_numpy(found["parts_later"].sum(-1)), divergence[:, : experiment.SPLIT].mean((1, 3))
    torch.testing.assert_close(parts, due, rtol=0, atol=1e-5)


def test_silencing_is_taking_a_heads_columns_from_the_output(network, ids):
    rises, whole = experiment.silence_each(network, ids)

    def loss():
        return network(ids, labels=ids).loss.item()

    assert whole == pytest.approx(loss(), abs=1e-5)
    weight = network.base_model.layers[1].self_attn.o_proj.weight
    kept = weight[:, 16:24].clone()
    weight[:, 16:24] = 0
    assert rises[0, 2] == pytest.approx(loss() - whole, abs=1e-5)
    weight[:, 16:24] = kept
    with experiment.without_mlps(network):
        assert loss() != pytest.approx(whole)
    assert loss() == pytest.approx(whole, abs=1e-5)


def test_rounding_is_that_of_the_format():
    gguf = pytest.importorskip("gguf")
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    kind = gguf.GGMLQuantizationType.Q4_1
    theirs = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind), kind))
    ours = experiment.round_weight(weight)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-3)  # they keep the smallest and the step in 16 bits
    torch.testing.assert_close(experiment.in_blocks(ours)[2], experiment.in_blocks(weight)[2])


def test_a_shaken_weight_moves_by_up_to_half_a_step():
    weight = experiment.round_weight(torch.randn(400, 32, generator=torch.Generator().manual_seed(0)))
    error = experiment.shake_weight(weight, torch.Generator().manual_seed(0)) - weight
    steps = error / experiment.in_blocks(weight)[2]
    assert steps.abs().max() <= 0.5
    assert steps.std().item() == pytest.approx(1 / math.sqrt(12), rel=0.02)


def test_only_the_matrices_of_the_layers_change(network):
    changed = experiment.change_weights(network, torch.zeros_like)
    assert torch.equal(changed.lm_head.weight, network.lm_head.weight)
    assert not changed.base_model.layers[2].mlp.up_proj.weight.any()
    assert network.base_model.layers[2].mlp.up_proj.weight.any()
    assert experiment.relative_error(network, lambda weight: 1.5 * weight) == pytest.approx(0.5)


def test_losses_are_the_models_own_where_nothing_is_changed(network, ids):
    last = smollm2.run_from(network, network.base_model.embed_tokens(ids), 0, smollm2.attend)[-1]
    own = [network(each[None], labels=each[None]).loss.item() for each in ids]
    assert smollm2.lose(network, last, ids).tolist() == pytest.approx(own, abs=1e-5)
