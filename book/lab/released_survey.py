"""One sequence in one network, measured twice: as the model computes it, and as the released code recomputes it.

Sequences are padded, as the code pads them. "Tokens" are the positions that are not padding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Residual
from analysis.core.weights import EncoderLayer
from analysis.maps import entropy
from analysis.maps.distance import total_variation
from analysis.models.reading import load
from analysis.representations import anisotropy
from analysis.statistics import normality
from analysis.transformer.activations import LayerActivations
from analysis.transformer.attention import compute_scores, project, softmax
from book.lab import released_code as code
from book.lab.classifier_survey import pass_all
from book.lab.map_counts import correlate
from book.lab.mathematics import stretching

FAULTS = ("no bias", "no mask", "next layer's input", "stored columns", "all four")
"""How the code's attention differs from the model's: one difference at a time, then all."""
NEARLY_ZERO = 1e-3
"""A singular value below this is counted as zero."""
EVERY = 3
"""Ranks are taken of every third head."""


@dataclass(frozen=True)
class Passage:
    """A padded sequence in a network: its layers, what passed them, and which positions are tokens."""

    layers: list[EncoderLayer]
    stations: list[LayerActivations]
    keep: Bool[Tensor, " position"]

    @property
    def states(self) -> list[Residual]:
        """What every layer read, and what the last one wrote."""
        return [self.stations[0].x, *(each.second for each in self.stations)]


def run(model: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Passage:
    """Take one padded sequence, ``(1, position)``, through a BERT."""
    stations, keep = pass_all(model, {"input_ids": input_ids, "attention_mask": attention_mask})
    return Passage(load(model).encoder_layers(), stations, keep)


def attend(x: Residual, weights: AttentionLayer, keep: Tensor | None = None) -> Attention:
    """Return the attention of a layer, without a mask if there is no ``keep``."""
    scores = compute_scores(x, weights)
    return softmax(scores if keep is None else scores.masked_fill(~keep, -math.inf))


def attend_as_coded(x: Residual, weights: AttentionLayer) -> Attention:
    """Return the attention that the code recomputes: stored columns, no bias, no mask."""
    return attend(x, code.with_stored_blocks(weights))


def attend_with_fault(fault: str, passage: Passage, layer: int) -> Attention:
    """Return a layer's attention with one of the code's differences, or with all."""
    weights, keep, states = passage.layers[layer].attention, passage.keep, passage.states
    return {
        "no bias": lambda: attend(states[layer], code.without_biases(weights), keep),
        "no mask": lambda: attend(states[layer], weights),
        "next layer's input": lambda: attend(states[layer + 1], weights, keep),
        "stored columns": lambda: attend(states[layer], code.with_stored_blocks(weights, biased=True), keep),
        "all four": lambda: attend_as_coded(states[layer + 1], weights),
    }[fault]()


@torch.no_grad()
def compare_attention(passage: Passage) -> dict[str, np.ndarray]:
    """Compare the model's attention with the code's, over the rows of tokens.

    Returns
    -------
    dict
        ``distance`` ``(fault, layer, head)``; ``alike``, the correlation of entries with all faults, over tokens only;
        ``grown`` and ``code_grown`` ``(map, layer, head)``, shares of rows that are longer in Q, K or V than in X;
        ``largest`` and ``code_largest`` ``(layer, head)``, the largest singular value of S V.
    """
    n, depth = int(passage.keep.sum()), len(passage.layers)
    distance, alike, largest, code_largest = [], [], [], []
    for layer in range(depth):
        own = passage.stations[layer].attention[:, :n]
        faulty = {fault: attend_with_fault(fault, passage, layer) for fault in FAULTS}
        distance.append(torch.stack([total_variation(own, maps[:, :n]).mean(-1) for maps in faulty.values()]))
        alike.append(correlate(own[..., :n].flatten(1), faulty["all four"][:, :n, :n].flatten(1)))
        weights = code.with_stored_blocks(passage.layers[layer].attention)
        values = project(passage.states[layer + 1], weights.W_V, weights.b_V)
        code_largest.append(anisotropy.head_output_spectrum(faulty["all four"], values).largest)
        largest.append(anisotropy.head_output_spectrum(own[..., :n], passage.stations[layer].values[:, :n]).largest)
    return _arrays(
        distance=torch.stack(distance, 1),
        alike=torch.stack(alike),
        largest=torch.stack(largest),
        code_largest=torch.stack(code_largest),
        **count_grown_rows(passage),
    )


def count_grown_rows(passage: Passage) -> dict[str, Tensor]:
    """Return the shares of the tokens' rows that are longer in Q, K or V than in X: the model's and the code's."""
    rows = torch.stack(passage.states)[:, passage.keep]
    own = [layer.attention for layer in passage.layers]
    blocks = [code.with_stored_blocks(weights) for weights in own]
    return {
        "grown": (stretching.amplifications(rows, own) > 1).double().mean(-1),
        "code_grown": (stretching.amplifications(rows[1:], blocks) > 1).double().mean(-1),
    }


@torch.no_grad()
def measure_rows(passage: Passage) -> dict[str, np.ndarray]:
    """Measure the cone index by state and the rows after the first LayerNorm by layer, in the paper's and code's forms.

    Returns
    -------
    dict
        ``cone`` and ``code_cone`` ``(state,)``, with padding after ``padded_``; ``failing`` and ``code_failing``
        ``(layer,)``, the share of rows that fail Lilliefors' test at 5 %, over tokens, and after ``padded_`` over all.
    """
    states, keep = torch.stack(passage.states), passage.keep
    own = torch.stack([each.first for each in passage.stations])
    coded = torch.stack([_first_rows(passage, layer) for layer in range(len(passage.layers))])
    critical = normality.critical_value(states.shape[-1])
    failing, code_failing = ((normality.lilliefors(rows) > critical).double() for rows in (own, coded))
    return _arrays(
        cone=anisotropy.cone_index(states[:, keep]),
        padded_cone=anisotropy.cone_index(states),
        code_cone=code.cone_index(states[:, keep]),
        padded_code_cone=code.cone_index(states),
        failing=failing[:, keep].mean(1),
        padded_failing=failing.mean(1),
        code_failing=code_failing[:, keep].mean(1),
        padded_code_failing=code_failing.mean(1),
    )


def _first_rows(passage: Passage, layer: int) -> Residual:
    x, own = passage.states[layer], passage.layers[layer]
    weights = code.with_stored_blocks(own.attention)
    return code.first_norm_rows(x, attend(x, weights), project(x, weights.W_V, weights.b_V), own.norm_attention.eps)


@torch.no_grad()
def measure_maps(passage: Passage) -> dict[str, np.ndarray]:
    """Measure the entropies of the model's maps, and the mass of the cells that the code draws.

    Returns
    -------
    dict
        ``(layer, head)`` each: ``row_entropy``, relative to ln n, mean over tokens; ``value_entropy``, the code's, of
        the map with everything from the last token on blanked; ``last``, the attention that tokens pay to the last
        token ([SEP], where there is one); ``seen``, the share of the attention that lies in cells that would be drawn.
    """
    n = int(passage.keep.sum())
    found = []
    for each in passage.stations:
        maps = each.attention[:, :n, :n]
        blanked = code.blank_from(maps, n - 1, len(passage.keep))
        found.append(
            torch.stack(
                [
                    entropy.relative_entropy(maps).mean(-1),
                    code.value_entropy(blanked),
                    maps[..., -1].mean(-1),
                    (blanked * (blanked >= code.HIDDEN_BELOW)).sum((-2, -1)) / n,
                ]
            )
        )
    return _arrays(**dict(zip(("row_entropy", "value_entropy", "last", "seen"), torch.stack(found, 1))))


@torch.no_grad()
def measure_coded_maps(passage: Passage) -> dict[str, np.ndarray]:
    """Measure what the authors recorded of recomputed attention, on the layer's own output, all rows.

    Returns
    -------
    dict
        ``minimal_keys`` ``(layer, head)``, median over rows; ``own_minimal_keys``, the same of the model's own maps,
        over tokens; and of head 0, from the layer's input as there: ``softmax_cone``, the code's cone index of the map,
        and ``singular_values``, how many of the map are 0.001 or more, ``(layer,)``.
    """
    keys, own_keys, cones, counts = [], [], [], []
    n = int(passage.keep.sum())
    for layer, station in enumerate(passage.stations):
        weights = passage.layers[layer].attention
        keys.append(_median(code.minimal_keys(attend_as_coded(station.second, weights))))
        own_keys.append(_median(code.minimal_keys(station.attention[:, :n, :n])))
        first = attend_as_coded(station.x, weights)[0]
        cones.append(code.cone_index(first))
        counts.append((singular_values(first) >= NEARLY_ZERO).sum())
    return _arrays(
        minimal_keys=torch.stack(keys),
        own_minimal_keys=torch.stack(own_keys),
        softmax_cone=torch.stack(cones),
        singular_values=torch.stack(counts).float(),
    )


@torch.no_grad()
def measure_ranks(passage: Passage) -> dict[str, np.ndarray]:
    """Return numerical ranks as the code takes them: those of the recomputed S and S V, and of the layers' outputs.

    Returns
    -------
    dict
        ``rank_maps`` and ``rank_outputs`` ``(layer, head)``, of every :data:`EVERY`-th head; ``rank_layers``.
    """
    maps, outputs = [], []
    for layer, station in enumerate(passage.stations):
        weights = code.with_stored_blocks(passage.layers[layer].attention)
        attention = attend(station.second, weights)[::EVERY]
        values = project(station.second, weights.W_V, weights.b_V)[::EVERY]
        maps.append(rank(attention))
        outputs.append(rank(attention @ values))
    return _arrays(
        rank_maps=torch.stack(maps),
        rank_outputs=torch.stack(outputs),
        rank_layers=rank(torch.stack([each.second for each in passage.stations])),
    )


def singular_values(matrix: Float[Tensor, "*batch row column"]) -> Float[Tensor, "*batch value"]:
    """Return the singular values, from the Gram matrix in float64: true to 1e-8 of the largest."""
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.transpose(-1, -2)
    tall = tall.double()
    return torch.linalg.eigvalsh(tall.transpose(-1, -2) @ tall).clamp(min=0).sqrt()


def rank(matrix: Float[Tensor, "*batch row column"]) -> Int[Tensor, "*batch"]:
    """Count the singular values above numpy's threshold for single precision: sides times precision times largest.

    >>> rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    values = singular_values(matrix)
    least = max(matrix.shape[-2:]) * torch.finfo(torch.float32).eps * values.amax(-1, keepdim=True)
    return (values > least).sum(-1)


def _median(counts: Tensor) -> Tensor:
    return torch.from_numpy(np.median(counts.cpu().numpy(), -1))


def _arrays(**tensors: Tensor) -> dict[str, np.ndarray]:
    return {name: tensor.double().cpu().numpy().astype(np.float32) for name, tensor in tensors.items()}


def stacked(measured: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Stack what was measured of several passages, passages first."""
    return {name: np.stack([each[name] for each in measured]) for name in measured[0]}


def tolerance(name: str) -> float:
    """Say how far an array may differ on another machine: float32 sums, rows and cells at the brink of a threshold."""
    measure = name.rpartition("/")[2]
    for ending, most in (
        ("failing", 0.03),
        ("cone", 5.0),
        ("keys", 2.0),
        ("values", 2.0),
        ("rank_maps", 3.0),
        ("rank_outputs", 2.0),
        ("rank_layers", 2.0),
        ("value_entropy", 0.05),
        ("largest", 0.05),
        ("grown", 0.01),
        ("empty", 1.0),
        ("words", 0.0),
    ):
        if measure.endswith(ending):
            return most
    return 5e-3
