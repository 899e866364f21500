"""The experiment on SmolLM2's induction heads, on a tiny Llama."""

import numpy as np
import pytest
import torch

from book.experiments import smollm2_induction as experiment
from tests.analysis.tiny import random_llama


def test_scores_are_those_of_the_models_own_maps_and_silenced_heads_cost():
    network = random_llama(hidden_size=24, num_hidden_layers=2, initializer_range=0.3)
    ids = experiment.repeat(60)
    half = ids.shape[1] // 2
    assert torch.equal(ids[:, :half], ids[:, half:])
    found = experiment.measure(network, ids)
    maps = torch.stack(network(ids, output_attentions=True).attentions)  # (layer, sequence, head, query, key)
    queries = range(half, 2 * half)
    after = torch.stack([maps[..., query, query - half + 1] for query in queries]).mean((0, 2))
    before = torch.stack([maps[..., query, query - 1] for query in queries]).mean((0, 2))
    np.testing.assert_allclose(found["induction"], after, atol=1e-6)
    np.testing.assert_allclose(found["previous"], before, atol=1e-6)
    assert found["loss"].shape == (2 + experiment.DRAWS, 2 * half - 1)
    assert found["loss"][1] != pytest.approx(found["loss"][0])
    assert np.isclose(found["induction"][tuple(found["best"][0])], found["induction"].max())
