"""A probe of a language model with rotary positions that is being trained: its biases, and what they are worth."""

from collections.abc import Callable
from copy import deepcopy
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
        biases = [_bias(layer) for layer in layers]
        folded = [
            bias + block.attention.query_key_value.weight @ block.input_layernorm.bias
            for bias, block in zip(biases, model.gpt_neox.layers, strict=True)
        ]
        for name, vectors in {"bias": biases, "bias_folded": folded, "mean": means}.items():
            split = torch.stack([_split(vector, layer) for vector, layer in zip(vectors, layers, strict=True)])
            measured |= {f"{part}_{name}": split[:, index] for index, part in enumerate(PARTS)}
        arrays = {name: value.detach().float().cpu().numpy() for name, value in measured.items()}
        without = {part: gpt2_mini.evaluate(without_bias(model, part), windows) for part in PARTS}
        return arrays | {f"held_out_no_{part}_bias": loss for part, loss in without.items()}

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


@torch.no_grad()
def without_bias(model: nn.Module, part: str) -> nn.Module:
    """Return a copy of a GPT-NeoX with the query or the key bias of all heads set to 0."""
    changed = deepcopy(model)
    for layer in changed.gpt_neox.layers:
        if layer.attention.query_key_value.bias is not None:
            _split(layer.attention.query_key_value.bias, layer.attention)[PARTS.index(part)] = 0
    return changed
