"""Small inputs whose answers are known by hand: a record of given arrays, layers of simple weights."""

from types import SimpleNamespace

import numpy as np
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm


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
