"""Our BERT on plain tensors equals the Hugging Face model, on tiny random ones and on the real one at hand."""

import pytest
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.models.families.tiny import tiny_model
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, softmax
from analysis.transformer.encoder import Switches, encode


def tiny(heads=4):
    return tiny_model("bert", num_attention_heads=heads, max_position_embeddings=16)


@pytest.mark.parametrize("heads", [1, 4])
def test_own_forward_equals_transformers(heads):
    model = tiny(heads)
    ids = torch.randint(0, 40, (1, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        out = model(ids, output_hidden_states=True, output_attentions=True)
    layers = load(model).encoder_layers()
    own = encode(out.hidden_states[0][0], layers)
    for ours, theirs in zip(own, out.hidden_states, strict=True):
        torch.testing.assert_close(ours, theirs[0], rtol=1e-10, atol=1e-10)
    for layer, state, theirs in zip(layers, own, out.attentions, strict=False):
        torch.testing.assert_close(softmax(compute_scores(state, layer.attention)), theirs[0], rtol=1e-10, atol=1e-10)
    assert (encode(own[0], layers, Switches(skip=False))[-1] - out.hidden_states[-1][0]).abs().max() > 0.01


def test_layers_from_the_model_are_those_of_the_file():
    checkpoint = checkpoints.find("minilm")
    layer = load(pretrained.load(checkpoint)).encoder_layers()[1]
    due = load(checkpoint).layers[1].plain()
    for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        assert torch.equal(getattr(layer.attention, name), getattr(due, name)), name
    norm = load(checkpoint).norm("attention", 1)
    assert torch.equal(layer.norm_attention.gain, norm.gain)
    assert layer.norm_attention.eps == norm.eps
    for name, tensor in vars(load(checkpoint).mlp(1)).items():
        assert torch.equal(getattr(layer.mlp, name), tensor), name


def test_hidden_states_of_the_real_model():
    checkpoint = checkpoints.find("minilm")
    model, tokenizer = pretrained.load(checkpoint), pretrained.tokenizer(checkpoint)
    states, short = extraction.hidden_states(model, tokenizer, ["The quick brown fox.", "Yes."], longest=5)
    assert states.shape == (model.config.num_hidden_layers + 1, 5, model.config.hidden_size)
    assert short.shape[1] == 4
    seen = extraction.observe(model, tokenizer, ["The quick brown fox.", "Yes."], longest=5)
    assert torch.equal(seen.rows(1), torch.cat([states[1], short[1]]))
    own = encode(states[0], seen.layers)
    torch.testing.assert_close(own[-1], states[-1], rtol=0, atol=2e-5)
    assert seen.attention[2] is seen.layers[2].attention


def test_refusals():
    with pytest.raises(ValueError, match="must be a model of transformers"):
        load(torch.nn.Linear(2, 2)).encoder_layers()
    other = tiny()
    other.config.hidden_act = "gelu_new"
    with pytest.raises(ValueError, match="exact GELU"):
        load(other).encoder_layers()
    with pytest.raises(ValueError, match="texts is empty"):
        extraction.hidden_states(tiny(), None, [])
    with pytest.raises(ValueError, match=r"longest must be 1\.\.16"):
        extraction.hidden_states(tiny(), None, ["a"], longest=17)


def test_published_sizes_are_counted_without_numbers():
    assert extraction.count_parameters(24, 16, 1024) == 335_141_888
    small = extraction.count_parameters(1, 1, 4)  # tables, their LayerNorm; attention, LayerNorms, perceptron; pooler
    assert small == (30522 + 512 + 2) * 4 + 8 + (4 * 20 + 2 * 8 + 4 * 16 + 16 + 16 * 4 + 4) + 20


def test_a_model_accepts_as_many_tokens_as_it_has_positions():
    assert [extraction.accepts(tiny(), length) for length in (1, 16, 17)] == [True, True, False]


def test_a_model_without_positions_is_a_function_of_a_set():
    model, ids = tiny(), torch.arange(9)[None]
    permutation = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert extraction.order_sensitivity(model, ids, torch.arange(9)) < 1e-12
    assert extraction.order_sensitivity(model, ids, permutation) > 0.01
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
    assert extraction.order_sensitivity(model, ids, permutation) < 1e-12
