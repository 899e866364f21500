"""A small random BERT to be surveyed on several devices, and what it means that two surveys found the same."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel


def random_bert(seed: int) -> BertModel:
    settings = BertConfig(
        num_hidden_layers=2,
        num_attention_heads=3,
        hidden_size=24,
        intermediate_size=48,
        max_position_embeddings=32,
        initializer_range=0.4,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertModel(settings).eval().requires_grad_(False)
        for layer in model.encoder.layer:
            layer.attention.self.query.bias.normal_()
    return model


def assert_same_results(found, due) -> None:
    assert {n: v.value for n, v in found.values.items()} == pytest.approx(
        {n: v.value for n, v in due.values.items()}, rel=1e-3, abs=1e-4, nan_ok=True
    )
    for name, array in due.arrays.items():
        np.testing.assert_allclose(found.arrays[name], array, atol=1e-3, err_msg=name)
