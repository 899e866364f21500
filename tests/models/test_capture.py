"""Captured models: same output as the library's own attention, maps equal to the eager ones, nothing left behind."""

import pytest
import torch
import transformers

from analysis import capture, stream

BERT = transformers.BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=2,
                               intermediate_size=32, max_position_embeddings=20)
GPT2 = transformers.GPT2Config(vocab_size=50, n_embd=24, n_layer=3, n_head=2, n_positions=20, bos_token_id=0,
                               eos_token_id=0)


@pytest.fixture(params=["bert", "gpt2"])
def model(request):
    torch.manual_seed(0)
    made = transformers.BertModel(BERT) if request.param == "bert" else transformers.GPT2Model(GPT2)
    for parameter in made.parameters():
        parameter.data *= 6 if parameter.ndim == 2 else 1
    made.set_attn_implementation("eager")
    return made.eval().double().requires_grad_(False)


IDS = torch.arange(40).reshape(2, 20) % 47


def test_statistics_equal_those_of_the_eager_maps(model):
    eager = model(IDS, output_attentions=True)
    statistics = stream.MapStatistics(3, 2, 20)
    with capture.through(model, statistics.attend):
        captured = model(IDS)
    assert torch.allclose(captured.last_hidden_state, eager.last_hidden_state)
    for layer, maps in enumerate(eager.attentions):
        assert torch.allclose(statistics.entropy()[layer], -torch.xlogy(maps, maps).sum(-1).mean((0, 2)), atol=1e-8)
        assert torch.allclose(statistics.column_mass()[layer], maps.sum(-2).mean(0), atol=1e-8)
    assert eager.attentions[0].std() > 0.01


def test_maps_and_states_go_by_layer_by_layer(model):
    eager = model(IDS, output_attentions=True, output_hidden_states=True)
    maps, states = [], []
    with capture.through(model, stream.visit_maps(lambda layer, m: maps.append((layer, m))),
                         hidden=lambda layer, h: states.append((layer, h))):
        model(IDS)
    assert [layer for layer, _ in maps] == [0, 1, 2] == [layer for layer, _ in states]
    for (_, seen), due in zip(maps, eager.attentions, strict=True):
        assert torch.allclose(seen, due)
    for (_, seen), due in zip(states[:2], eager.hidden_states[1:3], strict=True):  # GPT-2's last state is normalised
        assert torch.allclose(seen, due)


def test_padding_on_the_right(model):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, 13:] = 0
    eager = model(IDS, attention_mask=mask).last_hidden_state
    statistics = stream.MapStatistics(3, 2, 20)
    with capture.through(model, statistics.attend):
        captured = model(IDS, attention_mask=mask).last_hidden_state
    assert torch.allclose(captured[1, :13], eager[1, :13])
    assert torch.allclose(captured[0], eager[0])
    if model.config.model_type == "bert":
        assert statistics.sequences()[[13, 20]].tolist() == [1, 1]
        assert not torch.allclose(model(IDS).last_hidden_state[1, :13], eager[1, :13])  # the mask matters


def test_padding_on_the_left_is_refused():
    model = transformers.BertModel(BERT).eval()
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, :4] = 0
    with capture.through(model, stream.MapStatistics(3, 2, 20).attend), pytest.raises(ValueError, match="on the right"):
        model(IDS, attention_mask=mask)


def test_leaves_the_model_as_it_was(model):
    before = model(IDS).last_hidden_state
    with pytest.raises(RuntimeError, match="stop"), capture.through(model, stream.visit_maps(fail)):
        model(IDS)
    assert model.config._attn_implementation == "eager"
    assert torch.equal(model(IDS).last_hidden_state, before)
    assert not capture._active


def fail(layer, maps):
    raise RuntimeError("stop")


def test_training_mode_is_refused():
    with pytest.raises(ValueError, match="training mode"), capture.through(transformers.BertModel(BERT).train()):
        pass


def test_a_model_without_layers_is_refused():
    model = transformers.BertModel(BERT).eval()
    model.config.num_hidden_layers = 7
    with pytest.raises(ValueError, match="no list of 7 layers"):
        capture.layers(model)


def test_keeping_the_heap_whole_is_harmless():
    assert capture.keep_heap_whole() in (True, False)
