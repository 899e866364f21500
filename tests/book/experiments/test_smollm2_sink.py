"""The experiment on SmolLM2's sink: a tiny Llama, against its own eager maps and changes made by hand."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from book.experiments import smollm2_sink as experiment
from tests.analysis.tiny import random_llama

LAYERS = 30


@pytest.fixture(scope="module")
def network():
    return random_llama(num_hidden_layers=LAYERS, initializer_range=0.1)


@pytest.fixture(scope="module")
def ids():
    return torch.randint(60, (4, 10), generator=torch.Generator().manual_seed(0))


def test_shares_are_those_of_the_models_own_maps(network, ids):
    maps = torch.stack(network(ids, output_attentions=True).attentions)  # (layer, text, head, query, key)
    found = experiment.watch(network, ids)
    torch.testing.assert_close(torch.from_numpy(found["share"]), maps[..., 1:, 0].mean((1, 3)), rtol=0, atol=1e-6)
    assert found["same"].max() <= 1 + 1e-6


def test_losses_are_the_models_own_where_nothing_is_changed(network, ids):
    found = experiment.change_layers(network, ids)
    own = [network(each[None], labels=each[None]).loss.item() for each in ids]
    assert found["whole"] == pytest.approx(own, abs=1e-5)
    of_blocks = experiment.change_blocks(network, ids)
    assert of_blocks["block_whole"] == pytest.approx(sum(own) / 4, abs=1e-5)
    assert torch.tensor(of_blocks["taken"]).shape == (len(experiment.TOGETHER), LAYERS)


def test_a_block_is_changed_as_in_a_run_of_the_whole_model(network, ids):
    found = experiment.change_blocks(network, ids)
    way, block = "shared", "12 to 17"
    with experiment.attention_hooks.with_attention(network, experiment.change_maps(way, experiment.BLOCKS[block])):
        loss = network(ids, labels=ids).loss.item()
    place = list(experiment.BLOCKS).index(block), experiment.TOGETHER.index(way)
    assert found["block_loss"][place[0]][place[1]] == pytest.approx(loss, abs=1e-5)


def test_every_way_by_hand():
    maps = torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]])
    value = torch.tensor([[[[4.0], [8.0]]], [[[12.0], [8.0]]]])  # of two texts
    generator = torch.Generator().manual_seed(0)
    of_second_row = {
        way: experiment.changed(way, maps.expand(2, -1, -1, -1), value, generator)[0, 0, 1].item()
        for way in {*experiment.SINGLE, *experiment.TOGETHER} - {"at random"}
    }
    due = {"deleted": 2.0, "shared": 8.0, "turned up": 3.0 + 8.0, "doubled": 3.0 + 4.0, "of other texts": 9.0 + 2.0}
    assert of_second_row == due
    at_random = experiment.changed("at random", maps.expand(2, -1, -1, -1), torch.ones_like(value), generator)
    torch.testing.assert_close(at_random[:, 0, 1, 0], torch.full((2,), 0.25))


def test_the_first_row_is_never_changed(network, ids):
    for way in experiment.TOGETHER:
        with experiment.attention_hooks.with_attention(network, experiment.change_maps(way, range(LAYERS))):
            rows = network.base_model(ids).last_hidden_state
        torch.testing.assert_close(rows[:, 0], network.base_model(ids).last_hidden_state[:, 0])
        assert not torch.allclose(rows[:, 1:], network.base_model(ids).last_hidden_state[:, 1:])


def test_every_token_is_compared_by_the_values_of_the_models_own_projections():
    network = random_llama(vocab_size=600, num_hidden_layers=14, initializer_range=0.1)
    starts = torch.tensor([3, 5, 8])
    states = network(torch.arange(600)[:, None], output_hidden_states=True).hidden_states
    layers = list(enumerate(network.model.layers))[experiment.FROM :]
    own = [layer.self_attn.v_proj(layer.input_layernorm(states[at][:, 0])).unflatten(1, (2, 8)) for at, layer in layers]
    values = torch.stack(own, 1)  # (token, layer, head, channel)
    expected = cosine_similarity(values, values[starts].mean(0), dim=-1).amin((1, 2))
    torch.testing.assert_close(experiment.try_all(network, starts), expected, rtol=0, atol=1e-5)
