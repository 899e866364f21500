"""Small inputs whose answers are known by hand: a record of given arrays, layers of simple weights."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from transformers import BertConfig, BertModel

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint


class Known(SimpleNamespace):
    """A record whose arrays are given."""

    def array(self, name: str) -> np.ndarray:
        return np.array(self.arrays[name])

    def __getitem__(self, name: str):
        return self.arrays[name]


def record(**arrays) -> Known:
    return Known(arrays=arrays)


def hand_over(monkeypatch, module, **arrays):
    """Let a module read these arrays where it would read a record."""
    monkeypatch.setattr(module, "live_or_record", lambda *args, **settings: (record(**arrays), True))


def double(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def plain(model: int, heads: int = 1, *, causal: bool = False, **given: torch.Tensor) -> AttentionLayer:
    """Return a layer of zeros, with the weights and biases that are given for all heads."""
    channel = given["W_Q"].shape[-1] if "W_Q" in given else model
    shapes = dict.fromkeys(("W_Q", "W_K", "W_V"), (model, channel)) | {"W_O": (channel, model)}
    shapes |= dict.fromkeys(("b_Q", "b_K", "b_V"), (channel,))
    parts = {name: given.get(name, torch.zeros(shape)).double().expand(heads, *shape) for name, shape in shapes.items()}
    cloned = {name: part.clone() for name, part in parts.items()}
    return AttentionLayer(**cloned, b_O=given.get("b_O", torch.zeros(model)).double(), mask=Mask(causal=causal))


def no_norm(model: int, eps: float = 0.0) -> Norm:
    """Return a LayerNorm without gain or bias of its own."""
    return Norm(torch.ones(model).double(), torch.zeros(model).double(), eps)


def save_bert(path: Path, *, noise: float, sharper: float = 1, **settings: int) -> Checkpoint:
    """Save a BERT of two layers with MiniLM's words, its parameters moved at random, its queries made longer."""
    config = BertConfig(num_hidden_layers=2, **settings)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = BertModel(config)
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
        for layer in model.encoder.layer:
            layer.attention.self.query.weight.mul_(sharper)
        model.save_pretrained(path)
    pretrained.tokenizer(checkpoints.find("minilm")).save_pretrained(path)
    return checkpoints.find(str(path))
