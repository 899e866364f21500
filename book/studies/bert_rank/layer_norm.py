"""LayerNorm against the printed map and the printed matrices, and what a bias can do to a rank."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm as layer_norm_of_torch

from analysis.core.attention_layer import Norm
from analysis.matrices import rank
from analysis.matrices.exact_ranks import exact_rank
from analysis.matrices.rank import numerical_rank
from analysis.models.extraction import Observed
from analysis.transformer.attention import attend
from analysis.transformer.layernorm import apply_norm, centre, sigma
from book.studies.bert_rank import statements
from book.studies.shared.errors import largest


@dataclass(frozen=True)
class LayerNormCheck:
    """LayerNorm against the printed map, and what a bias can do to a rank."""

    plain_error: float  # torch's with epsilon 0, gain 1, bias 0 against (3.5)
    affine_error: float  # with gain and bias against (3.5) times g plus b
    trained_gap: float  # BERT's first against (3.5), on what it reads
    read_gap: float  # the library's output against LayerNorm of X + Conc W_O + b_O
    concatenation_gap: float  # and against LayerNorm of the concatenation
    skipped: float  # the largest entry of the skipped X
    matrix_error: float  # of D^-1 (X - E 1^T) against LayerNorm
    mean_spaces: tuple[int, int]  # ranks of [E 1^T, E] and of [1 E^T, E]
    with_means: tuple[int, int]  # ranks of X and of [X, E], for X of rank 3
    zero_mean_rank: int  # rank of E 1^T for [[1, -1]]
    only_row: Float[Tensor, "1 3"]
    opposite: Norm  # its bias is the image of that row with the sign turned
    ranks_down: list[int]  # of that row, step by step
    constant_deviation: float  # what the printed D divides a constant row by


def measure_norm(network: torch.nn.Module, trained: Observed) -> LayerNormCheck:
    """Hold the printed map and the printed matrices to torch's LayerNorm and to the model's first."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=g, dtype=torch.float64)
    gain, shift = torch.randn(2, 8, generator=g, dtype=torch.float64)
    printed = printed_layer_norm(x)
    opposite = opposite_bias(row := torch.tensor([[1.0, -1.0, 3.0]], dtype=torch.float64))
    return LayerNormCheck(
        plain_error=largest(layer_norm_of_torch(x, [8], eps=0.0) - printed),
        affine_error=largest(layer_norm_of_torch(x, [8], gain, shift, eps=0.0) - (printed * gain + shift)),
        **compare_with_library(network, trained),
        **measure_mean_matrices(g),
        only_row=row,
        opposite=opposite,
        ranks_down=[step.rank for step in rank.ranks_through_norm(row, opposite)],
        constant_deviation=sigma(torch.ones(1, 8, dtype=torch.float64), eps=0.0).item(),
    )


def printed_layer_norm(x: Float[Tensor, "row model"]) -> Float[Tensor, "row model"]:
    """Return (3.5): each row less its mean, divided by its standard deviation."""
    return centre(x) / sigma(x, eps=0.0)[:, None]


def compare_with_library(network: torch.nn.Module, trained: Observed) -> dict[str, float]:
    """Compare what the first LayerNorm after attention writes with what it would of other inputs, as printed."""
    first, x, norm = network.encoder.layer[0].attention, trained.states[0][0], trained.layers[0].norm_attention
    concatenation = first.self(x[None])[0]
    written, read = first.output(concatenation, x[None])[0], x + attend(x, trained.attention[0]).output
    return {
        "trained_gap": largest(apply_norm(read, norm) - printed_layer_norm(read)),
        "read_gap": largest(written - apply_norm(read, norm)),
        "concatenation_gap": largest(written - apply_norm(concatenation[0], norm)),
        "skipped": largest(x),
    }


def measure_mean_matrices(g: torch.Generator) -> dict:
    """Compare the matrix of row means E 1^T with the printed 1 E^T."""
    wide = torch.randn(5, 9, generator=g, dtype=torch.float64)
    ones, zeros = torch.ones(9, dtype=wide.dtype), torch.zeros(9, dtype=wide.dtype)
    E, D = wide.mean(1, keepdim=True), torch.diag(1 / sigma(wide, eps=1e-12))
    thin = torch.randn(5, 3, generator=g, dtype=torch.float64)
    square = thin @ torch.randn(3, 5, generator=g, dtype=torch.float64)
    mean, one = square.mean(1, keepdim=True), torch.ones(5, 1, dtype=torch.float64)
    of_E, printed = (numerical_rank(torch.cat([m, mean], 1)).rank for m in (mean @ one.T, one @ mean.T))
    balanced = np.array([[1, -1]], dtype=object)
    written = apply_norm(wide, Norm(ones, zeros, 1e-12))
    return {
        "matrix_error": largest(D @ (wide - E @ ones[None]) - written),
        "mean_spaces": (of_E, printed),
        "with_means": (numerical_rank(square).rank, numerical_rank(torch.cat([square, mean], 1)).rank),
        "zero_mean_rank": exact_rank(2 * balanced - statements.centred(balanced)),
    }


def opposite_bias(row: Float[Tensor, "1 model"]) -> Norm:
    """Return a LayerNorm whose bias takes away what it makes of this row."""
    one, zero = torch.ones_like(row[0]), torch.zeros_like(row[0])
    return Norm(one, -apply_norm(row, Norm(one, zero, eps=0.0))[0], eps=0.0)
