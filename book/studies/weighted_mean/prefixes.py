"""Means of prefixes: the word 'bab', and a random layer computed in two ways."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.axes import Residual
from analysis.decomposition import uniform
from analysis.transformer.attention import attend, project


@dataclass(frozen=True)
class Word:
    """The word 'bab' over three letters, and what the document's two listings make of it.

    All arrays are 3 x 3. ``rows`` are the one-hot letters, ``weights`` the uniform causal weights, ``product`` the
    means of the prefixes. ``folded`` is the second listing, with VO = I and bo = 0, and ``shifted`` the same with
    bo = 1.
    """

    rows: np.ndarray
    weights: np.ndarray
    product: np.ndarray
    listing_weights: np.ndarray
    listing_product: np.ndarray
    folded: np.ndarray
    shifted: np.ndarray


@dataclass(frozen=True)
class RandomLayer:
    """A random causal layer of three heads of width 4 on nine random rows.

    ``visible`` holds the weights on the position itself and on those before it, ``future`` all others. ``errors`` are
    the largest differences between two ways to compute the same thing. ``first_row_off`` is how far the first output
    row, whose query sees itself alone, is from that input.
    """

    layer: AttentionLayer
    x: Float[Tensor, "position model"]
    visible: np.ndarray
    future: np.ndarray
    errors: Mapping[str, float]
    first_row_off: float


def measure_word(word: str = "bab", alphabet: str = "abc") -> Word:
    """Encode a word with one row a letter, and run the document's two listings on it."""
    rows = np.eye(len(alphabet))[[alphabet.index(letter) for letter in word]]
    weights = uniform.uniform_causal(len(word)).numpy()
    positions, letters = rows.shape
    listing = np.tri(positions) * (1.0 / np.arange(1, positions + 1)).reshape(-1, 1)
    folded, shifted = (listing @ rows @ np.identity(letters) + bo for bo in (np.zeros(letters), np.ones(letters)))
    return Word(rows, weights, weights @ rows, listing, listing @ rows, folded, shifted)


def measure_random_layer(layer: AttentionLayer, x: Residual) -> RandomLayer:
    """Compute sums, means and the layer's output in two ways each."""
    run = attend(x, replace(layer, mask=Mask(causal=True)))
    A, future = run.attention, torch.ones(len(x), len(x), device=x.device).triu(1).bool()
    values, W = project(x, layer.W_V, layer.b_V), uniform.uniform_causal(len(x)).to(x.device)
    heads = A @ values
    mapped = torch.einsum("hqk,kd,hdc->hqc", A, x, layer.W_V) + layer.b_V[:, None]
    summed = torch.einsum("hqc,hcd->qd", heads, layer.W_O) + layer.b_O
    stacked = torch.cat(list(heads), -1) @ layer.W_O.reshape(-1, layer.model) + layer.b_O
    pairs = {
        "row sums": (A.sum(-1), torch.ones_like(A[..., 0])),
        "mean": (x.mean(0), sum(x) / len(x)),
        "running means": (W @ x, uniform.cumulative_means(x)),
        "loop over prefixes": (W @ x, torch.stack([x[: i + 1].mean(0) for i in range(len(x))])),
        "sum over heads": (summed, run.output),
        "concatenation": (stacked, run.output),
        "weighted inputs": (mapped, heads),
    }
    errors = {name: (one - other).abs().max().item() for name, (one, other) in pairs.items()}
    first_row_off = (run.output[0] - x[0]).abs().max().item()
    return RandomLayer(layer, x, A[:, ~future].cpu().numpy(), A[:, future].cpu().numpy(), errors, first_row_off)
