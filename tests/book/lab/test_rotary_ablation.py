"""Attention that lacks parts of its scores: parts left out are biases set to 0; and what the parts explain."""

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.reading import load
from book.lab.rotary_ablation import WAYS, Scores, cut, evaluate, lose_heads, lose_pieces, mean_query_and_key
from book.lab.rotary_kernels import spread_kernel
from book.lab.rotary_probe import without_bias
from book.lab.rotary_shares import split_attention
from book.lab.training import neox_mini


def make_model(name, seed):
    """Make a small language model with biases everywhere."""
    made = neox_mini.make_model(neox_mini.VARIANTS[name], vocabulary=40).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) / 4)
    made.set_attn_implementation("eager")
    return made


@pytest.fixture(scope="module")
def model():
    return make_model("neox-mini", seed=1)


@pytest.fixture(scope="module")
def windows():
    return torch.randint(40, (3, 13), generator=torch.Generator().manual_seed(0))


def scores(model, way, **more):
    layers = load(model).layers
    return Scores([(layer.b_Q, layer.b_K) for layer in layers], layers[0].positions, WAYS[way], **more)


def test_with_all_parts_it_is_the_model_itself(model, windows):
    assert evaluate(model, windows, scores(model, "whole")) == pytest.approx(evaluate(model, windows), abs=1e-5)


@pytest.mark.parametrize("part", ["query", "key"])
def test_without_the_parts_of_a_bias_it_is_the_model_without_that_bias(part, model, windows):
    own = evaluate(model, windows)[0]
    expected = evaluate(without_bias(model, part), windows)[0]
    assert abs(expected - own) > 1e-3
    assert evaluate(model, windows, scores(model, f"no {part} bias"))[0] == pytest.approx(expected, abs=1e-5)


def test_one_head_is_not_all_heads(model, windows):
    ways = None, scores(model, "no kernel", head=(1, 3)), scores(model, "no kernel")
    assert len({round(evaluate(model, windows, way)[0], 6) for way in ways}) == 3


def test_attention_to_the_previous_position_is_the_models(model, windows):
    watched = scores(model, "whole", watch=("whole", "no kernel"))
    evaluate(model, windows, watched)
    maps = model(input_ids=windows[:, :-1], output_attentions=True).attentions
    for layer, attention in enumerate(maps):
        mean = attention.diagonal(-1, -2, -1).mean((0, 2))
        assert torch.allclose(watched.previous[layer][0] / watched.rows[layer], mean, atol=1e-5)


def test_what_takes_the_place_of_a_part_is_what_is_there_then(model, windows):
    layers = load(model).layers
    kernels = [distance_kernel(layer.b_Q.double(), layer.b_K.double(), layer.positions) for layer in layers]
    own = [spread_kernel(kernel, 12) for kernel in kernels]
    again = evaluate(model, windows, scores(model, "no kernel", instead=own))[0]
    assert again == pytest.approx(evaluate(model, windows)[0], abs=1e-5)
    nothing = [torch.zeros_like(kernel) for kernel in own]
    assert evaluate(model, windows, scores(model, "no kernel", instead=nothing))[0] != pytest.approx(again, abs=1e-4)


def test_a_head_without_its_kernel_changes_later_layers_only(model, windows):
    layers = load(model).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    after = lose_heads(model, windows, biases, layers[0].positions)
    before = after["previous"][0]
    assert np.allclose(after["previous_after"][:, :, 0], before[0], atol=1e-6)
    assert np.abs(after["previous_after"][0, :, 1] - before[1]).max() > 1e-4
    assert (after["by_head"] != 0).all()


@pytest.fixture(scope="module")
def partial():
    return make_model("neox-mini-partial", seed=2).double()


def test_what_nothing_turns_has_no_share_and_what_is_turned_has(partial, windows):
    layers = load(partial).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    split = split_attention(partial, windows, {"bias": biases}, layers[0].positions)
    shares = split.means()[0]
    assert split.gap < 1e-9
    assert np.abs(shares[..., 4]).max() < 1e-9
    assert np.abs(shares[..., 1:4]).min() > 1e-6
    assert biases[0][1][:, 4:].abs().min() > 0


def test_of_the_key_bias_only_the_turned_piece_counts(partial, windows):
    layers = load(partial).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    whole = evaluate(partial, windows, Scores(biases, layers[0].positions))[0]
    single = [tuple(part.float() for part in pair) for pair in biases]
    turned, rest = lose_pieces(partial, windows, single, layers[0].positions)
    assert rest == pytest.approx(whole, abs=1e-9)
    assert abs(turned - whole) > 1e-3


def test_the_mean_query_of_a_model_without_rotation_is_that_of_its_inputs():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=2, n_layer=1, vocab_size=40, n_positions=16)).eval()
    ids = torch.randint(40, (3, 13))
    ((query, key),) = mean_query_and_key(gpt2, ids)
    inputs = []
    gpt2.transformer.h[0].attn.c_attn.register_forward_hook(lambda module, args, out: inputs.append(out))
    gpt2(ids[:, :-1])
    mean = inputs[0].mean((0, 1)).view(3, 2, 8)
    torch.testing.assert_close(query, mean[0])
    torch.testing.assert_close(key, mean[1])


def test_windows_overlap_by_one():
    assert cut(torch.arange(10), 4).tolist() == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]
