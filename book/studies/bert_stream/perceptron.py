"""The MLP of the layer: its mask, its two biases, and the order of its input's blocks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from analysis.core.weights import EncoderLayer
from analysis.transformer.encoder import encode
from analysis.transformer.head_layout import concatenate, split
from analysis.transformer.mlp import activation_mask, apply_masked_mlp, apply_mlp, fold_layer
from book.studies.bert_stream.algebra import largest_error, relative_error
from book.studies.bert_stream.networks import Network, Subject


@dataclass(frozen=True)
class Perceptron:
    """The forms (5.11) to (5.13): errors, and what ReLU in place of GELU does to the sentence."""

    mask_error: float
    blocks_error: float
    relu_cosine: Mapping[str, float]
    """By network: the mean cosine of a text's mean row at the end with what it is with ReLU in all layers."""


@dataclass(frozen=True)
class Biases:
    """The two biases at the end of (5.14)."""

    variation: float
    """How much of what arrives of b_1 varies from token to token, relative to its size."""
    zeroed_cosine: float
    """The mean cosine of the sentence with what it is without b_2 in any layer."""
    fold_error: float


@dataclass(frozen=True)
class Order:
    """Blocks of the MLP's input in another order."""

    renumbered_error: float
    """With the rows of W_1 in the same order."""
    permuted_change: float
    """Without: how much the output changes, relative to its size."""
    inverse_error: float
    """Of the input, computed back from the hidden units before the activation."""


def measure_perceptron(subject: Subject, networks: Mapping[str, Network]) -> Perceptron:
    """Check the mask form and the product by blocks, and replace GELU by ReLU in all layers."""
    x, mlp = subject.first, subject.layer.mlp
    masked = apply_masked_mlp(x, mlp, activation_mask(x, mlp))
    by_blocks = (split(x, subject.heads) @ mlp.W_in.unflatten(0, (subject.heads, -1))).sum(0)
    cosines = {}
    for name, network in networks.items():
        relu = sentences(network, network.layers, activation=torch.relu)
        cosines[name] = cosine_similarity(relu, sentences(network, network.layers)).mean().item()
    return Perceptron(largest_error(masked, apply_mlp(x, mlp)), largest_error(by_blocks, x @ mlp.W_in), cosines)


def sentences(network: Network, layers: list[EncoderLayer], **options: Callable) -> Float[Tensor, "text model"]:
    """Run layers on what the first one of a network reads, and return the mean row at the end, of each text."""
    return torch.stack([encode(text[0], layers, **options)[-1].mean(0) for text in network.states])


def measure_biases(subject: Subject, trained: Network) -> Biases:
    """Measure what arrives of b_1, and set b_2 to zero or fold it into the biases before it, in all layers."""
    mlp, layers = subject.layer.mlp, trained.layers
    arriving = (mlp.b_in * activation_mask(subject.first, mlp)) @ mlp.W_out
    own = sentences(trained, layers)
    zeroed = sentences(trained, [_without_output_bias(layer) for layer in layers])
    folded = sentences(trained, [fold_layer(layer) for layer in layers])
    return Biases(
        variation=((arriving - arriving.mean(0)).norm() / arriving.norm()).item(),
        zeroed_cosine=cosine_similarity(zeroed, own).mean().item(),
        fold_error=largest_error(folded, own),
    )


def _without_output_bias(layer: EncoderLayer) -> EncoderLayer:
    return replace(layer, mlp=replace(layer.mlp, b_out=torch.zeros_like(layer.mlp.b_out)))


def measure_order(subject: Subject) -> Order:
    """Permute the blocks of the MLP's input, with and without the rows of W_1."""
    x, mlp, heads = subject.first, subject.layer.mlp, subject.heads
    order = torch.randperm(heads, generator=torch.Generator().manual_seed(0))
    permuted = concatenate(split(x, heads)[order])
    renumbered = replace(mlp, W_in=mlp.W_in.unflatten(0, (heads, -1))[order].flatten(0, 1))
    output = apply_mlp(x, mlp)
    return Order(
        renumbered_error=largest_error(apply_mlp(permuted, renumbered), output),
        permuted_change=relative_error(apply_mlp(permuted, mlp), output),
        inverse_error=largest_error(x @ mlp.W_in @ torch.linalg.pinv(mlp.W_in), x),
    )
