"""A probe of a language model with rotary positions that is being trained: its biases, and what they are worth."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from book.lab.training import gpt2_mini

PARTS = ("query", "key")


def make_probe(windows: Int[Tensor, "window position"]) -> Callable[[int, nn.Module], dict[str, np.ndarray]]:
    """Return what :func:`book.lab.training.gpt2_mini.train` takes as ``probe`` for a GPT-NeoX.

    The kernel of a head follows from its biases alone, and so does what the LayerNorm's bias and the mean input add;
    the probe keeps these vectors, from which the kernel can be computed.

    Parameters
    ----------
    windows
        Held-out text, with the token that is to be predicted last.

    Returns
    -------
    callable
        Step and model to arrays. For ``query`` and ``key``, each ``(layer, head, channel)``: ``{}_bias`` is the
        projection's bias, ``{}_bias_folded`` that plus what the LayerNorm's bias makes of its weight, and
        ``{}_mean`` the mean vector over all positions of the windows before rotation. ``held_out_no_{}_bias``
        is the loss on the windows with that bias set to 0 in all heads, in nats per token.
    """

    def probe(step: int, model: nn.Module) -> dict[str, np.ndarray]:
        layers = [layer.attention for layer in model.gpt_neox.layers]
        means = _mean_projections(model, layers, windows)
        measured = {}
        for part, index in (("query", 0), ("key", 1)):
            measured[f"{part}_bias"] = torch.stack([_split(_bias(layer), layer)[index] for layer in layers])
            measured[f"{part}_bias_folded"] = torch.stack(
                [
                    _split(
                        _bias(block.attention) + block.attention.query_key_value.weight @ block.input_layernorm.bias,
                        block.attention,
                    )[index]
                    for block in model.gpt_neox.layers
                ]
            )
            measured[f"{part}_mean"] = torch.stack(
                [_split(mean, layer)[index] for mean, layer in zip(means, layers, strict=True)]
            )
        arrays = {name: value.detach().float().cpu().numpy() for name, value in measured.items()}
        return arrays | {f"held_out_no_{part}_bias": _loss_without(model, part, windows) for part in PARTS}

    return probe


def _bias(attention: nn.Module) -> Tensor:
    linear = attention.query_key_value
    return torch.zeros_like(linear.weight[:, 0]) if linear.bias is None else linear.bias


def _split(vector: Tensor, attention: nn.Module) -> Tensor:
    """Cut what stands behind ``query_key_value`` into query, key and value of each head: part, head, channel."""
    return vector.view(-1, 3, attention.head_size).transpose(0, 1)


@torch.no_grad()
def _mean_projections(model: nn.Module, layers: list[nn.Module], windows: Tensor) -> list[Tensor]:
    sums = [torch.zeros_like(layer.query_key_value.weight[:, 0]) for layer in layers]

    def add(total: Tensor, module: nn.Module, inputs: tuple, output: Tensor) -> None:
        total.add_(output.sum((0, 1)))

    handles = [
        layer.query_key_value.register_forward_hook(partial(add, total))
        for layer, total in zip(layers, sums, strict=True)
    ]
    try:
        for part in windows.split(gpt2_mini.WINDOWS):
            model(input_ids=part[:, :-1].to(sums[0].device), use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return [total / windows[:, 1:].numel() for total in sums]


@contextmanager
def without_bias(model: nn.Module, part: str) -> Iterator[nn.Module]:
    """Set the query or the key bias of all heads of a GPT-NeoX to 0, for a while."""
    layers = [layer.attention for layer in model.gpt_neox.layers]
    biases = [layer.query_key_value.bias for layer in layers]
    kept = [None if bias is None else bias.detach().clone() for bias in biases]
    with torch.no_grad():
        for layer, bias in zip(layers, biases, strict=True):
            if bias is not None:
                _split(bias, layer)[PARTS.index(part)] = 0
    try:
        yield model
    finally:
        with torch.no_grad():
            for bias, values in zip(biases, kept, strict=True):
                if bias is not None:
                    bias.copy_(values)


def _loss_without(model: nn.Module, part: str, windows: Tensor) -> float:
    with without_bias(model, part):
        return gpt2_mini.evaluate(model, windows)
