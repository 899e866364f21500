"""The experiment on SmolLM2's first token: a tiny Llama, against its own projections of its own states."""

import torch
from torch.nn.functional import cosine_similarity

from book.experiments import smollm2_first_token as experiment
from tests.analysis.tiny import random_llama


def test_every_token_is_compared_by_the_values_of_the_models_own_projections():
    network = random_llama(vocab_size=600, num_hidden_layers=14, initializer_range=0.1)
    starts = torch.tensor([3, 5, 8])
    states = network(torch.arange(600)[:, None], output_hidden_states=True).hidden_states
    layers = list(enumerate(network.model.layers))[experiment.FROM :]
    own = [layer.self_attn.v_proj(layer.input_layernorm(states[at][:, 0])).unflatten(1, (2, 8)) for at, layer in layers]
    values = torch.stack(own, 1)  # (token, layer, head, channel)
    expected = cosine_similarity(values, values[starts].mean(0), dim=-1).amin((1, 2))
    torch.testing.assert_close(experiment.try_all(network, starts), expected, rtol=0, atol=1e-5)
