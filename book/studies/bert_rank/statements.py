"""The printed statements on ranks, and ours, for matrices of whole numbers, and ranks in a trained model.

A case that a statement does not speak of, such as a constant row under LayerNorm, counts as true. Means are multiplied
by the width, so that all numbers stay whole and no rank is rounded.

They are tried on every small matrix; LayerNorm is held to the printed map, and a bias to what it can do to a rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm as layer_norm_of_torch

from analysis.core.attention_layer import Norm
from analysis.matrices import rank
from analysis.matrices.rank import NormRanks, numerical_rank
from analysis.models import extraction
from analysis.models.extraction import Observed
from analysis.transformer.attention import attend
from analysis.transformer.encoder import run_layer
from analysis.transformer.layernorm import apply_norm, centre, sigma
from book.lab.mathematics.exact_ranks import exact_rank, first_counterexample, rank_change, small_matrices
from book.studies.shared.equality import largest

# ---- The printed statements on ranks, and ours, for matrices of whole numbers


def rows_vary(X: np.ndarray) -> bool:
    """Say whether no row is constant, so that LayerNorm is defined."""
    return all(len(set(row)) > 1 for row in X.tolist())


def centred(X: np.ndarray) -> np.ndarray:
    """Return the rows less their means, times their width."""
    return X.shape[1] * X - X.sum(1)[:, None]


def centred_as_printed(X: np.ndarray) -> np.ndarray:
    """Return what (3.9) subtracts, one times the transposed means, for a square matrix, times its width."""
    return X.shape[1] * X - X.sum(1)[None, :]


def layer_norm_keeps_rank(X: np.ndarray) -> bool:
    """LayerNorm plays no role in the rank."""
    return not rows_vary(X) or exact_rank(centred(X)) == exact_rank(X)


def rank_grows_by_less_than_one(X: np.ndarray) -> bool:
    """(3.9) as printed, for a square matrix."""
    return not rows_vary(X) or exact_rank(centred_as_printed(X)) < exact_rank(X) + 1


def printed_rule_for_updates(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    """Proposition 3.2.2: the rank falls by one exactly if x lies in the column space and y in the row space."""
    if not x.any() or not y.any():
        return True
    inside = exact_rank(np.hstack([A, x])) == exact_rank(A) == exact_rank(np.vstack([A, y]))
    return (exact_rank(A + x @ y) == exact_rank(A) - 1) == inside


def rule_for_updates(A: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    """Our theorem on updates of rank one."""
    if not x.any() or not y.any():
        return True
    change = exact_rank(A + x @ y) - exact_rank(A)
    return change == rank_change(A, x.ravel().tolist(), y.ravel().tolist())


def rule_for_sums(A: np.ndarray, B: np.ndarray) -> bool:
    """Theorem 3.2.1: ranks of sums, with the condition of equality."""
    total, of_sum = exact_rank(A) + exact_rank(B), exact_rank(A + B)
    apart = exact_rank(np.hstack([A, B])) == exact_rank(np.vstack([A, B])) == total
    return of_sum <= total and (of_sum == total) == apart


Matrix = list[list[int]]
SHAPES = ((2, 2), (2, 3), (3, 2), (3, 3))
"""Fewer rows than columns, as many, and more; the paper's matrices have 512 rows and 768 columns."""


@dataclass(frozen=True)
class Examples:
    """The smallest counterexamples to printed statements, and how many cases there are of the true ones."""

    lost: Matrix  # loses a rank when it is centred
    lost_ranks: tuple[int, int]  # before and after
    gained: Matrix  # gains one when 1 E^T is subtracted
    gained_ranks: tuple[int, int]
    update: tuple[Matrix, Matrix, Matrix]  # A, x, y
    update_change: int  # of the rank, where the printed rule says -1
    pairs: int
    pairs_failing: int
    triples: int
    triples_failing: int  # of our rule
    printed_failing: int  # of the rule as printed
    drops_outside: int  # the rank falls although a vector lies outside: the printed rule's other direction
    falls_by_more: int  # by more than one, against (3.10)


@dataclass(frozen=True)
class CentredCases:
    """What centring does to the rank of every small matrix without a constant row.

    ``inside`` counts the matrices whose row space holds the all-one row, ``outside`` the others; ``wide`` are those
    ``inside`` that have fewer rows than columns, as the paper's have. ``losing`` counts those of ``inside`` that lose
    exactly one rank, ``keeping`` those of ``outside`` that keep theirs, ``gaining`` all that gain any.
    """

    inside: int
    outside: int
    wide: int
    losing: int
    keeping: int
    gaining: int

    @property
    def decided(self) -> bool:
        """Whether the row space decides in all of them, and both cases occur."""
        return self.losing == self.inside > 0 and self.keeping == self.outside > 0 and self.wide > 0


def find_examples() -> Examples:
    """Walk through small matrices, smallest shapes first."""
    (lost,) = first_counterexample(layer_norm_keeps_rank, small_matrices([(1, 2), (2, 2), (3, 3)], (0, 1)))
    (gained,) = first_counterexample(rank_grows_by_less_than_one, small_matrices([(2, 2), (3, 3)], (0, 1, 2)))
    A, x, y = first_counterexample(printed_rule_for_updates, *(small_matrices([(1, 1)], (0, 1)) for _ in range(3)))
    pairs = [
        case
        for shape, entries in (((2, 2), (-1, 0, 1)), ((2, 3), (0, 1)))
        for case in product(*(small_matrices([shape], entries) for _ in range(2)))
    ]
    return Examples(
        lost=lost.tolist(),
        lost_ranks=(exact_rank(lost), exact_rank(centred(lost))),
        gained=gained.tolist(),
        gained_ranks=(exact_rank(gained), exact_rank(centred_as_printed(gained))),
        update=(A.tolist(), x.tolist(), y.tolist()),
        update_change=exact_rank(A + x @ y) - exact_rank(A),
        pairs=len(pairs),
        pairs_failing=sum(not rule_for_sums(*pair) for pair in pairs),
        **try_updates(),
    )


def try_updates() -> dict[str, int]:
    """Try the printed and the corrected rule for updates of rank one on all small triples."""
    triples = list(product(*(small_matrices([shape], (-1, 0, 1)) for shape in ((2, 2), (2, 1), (1, 2)))))
    wrong = [triple for triple in triples if not printed_rule_for_updates(*triple)]
    changes = [exact_rank(A + x @ y) - exact_rank(A) for A, x, y in triples]
    return {
        "triples": len(triples),
        "triples_failing": sum(not rule_for_updates(*t) for t in triples),
        "printed_failing": len(wrong),
        "falls_by_more": sum(change < -1 for change in changes),
        "drops_outside": sum(exact_rank(A + x @ y) < exact_rank(A) for A, x, y in wrong),
    }


def try_centring(shapes: Sequence[tuple[int, int]] = SHAPES, entries: Sequence[int] = (0, 1)) -> CentredCases:
    """Centre every small matrix and count.

    >>> cases = try_centring([(2, 2)])
    >>> cases.inside, cases.losing, cases.outside, cases.keeping
    (2, 2, 2, 2)
    """
    cases = []
    for X in small_matrices(shapes, entries):
        if rows_vary(X):
            before, after = exact_rank(X), exact_rank(centred(X))
            ones = np.ones((1, X.shape[1]), dtype=object)
            cases.append((exact_rank(np.vstack([X, ones])) == before, X.shape[0] < X.shape[1], after - before))
    inside, wide, change = np.array(cases).T
    held = inside.astype(bool)
    return CentredCases(
        inside=int(held.sum()),
        outside=int((~held).sum()),
        wide=int((held & wide.astype(bool)).sum()),
        losing=int((change[held] == -1).sum()),
        keeping=int((change[~held] == 0).sum()),
        gaining=int((change > 0).sum()),
    )


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
        "zero_mean_rank": exact_rank(2 * balanced - centred(balanced)),
    }


def opposite_bias(row: Float[Tensor, "1 model"]) -> Norm:
    """Return a LayerNorm whose bias takes away what it makes of this row."""
    one, zero = torch.ones_like(row[0]), torch.zeros_like(row[0])
    return Norm(one, -apply_norm(row, Norm(one, zero, eps=0.0))[0], eps=0.0)


# ---- Ranks on the way through the LayerNorms of a trained model and of its control

DROPPED = 1e-14  # below this share of the largest, singular values do not count
DEAD = 1e-6  # a gain below this lets nothing through


@dataclass(frozen=True)
class Ranks:
    """Ranks on the way through the LayerNorms after attention, by ``(trained or control, number of tokens)``."""

    width: int
    limit: int  # tokens of the longer input
    short: int  # tokens of the shorter one
    through: Mapping[tuple[str, int], list[NormRanks]]
    apart: Mapping[tuple[str, int], list[float]]  # sine of the angle between the all-one row and the row space
    reads: Mapping[str, Float[Tensor, "row model"]]  # what the first LayerNorm reads, by title of the panel
    last: NormRanks  # through the last LayerNorm of the trained model, for the longer input
    dead_gains: int  # its gains below 1e-6

    @property
    def all_steps(self) -> list[NormRanks]:
        """The ranks of all layers, models and inputs."""
        return [steps for of_layers in self.through.values() for steps in of_layers]

    @property
    def clear(self) -> bool:
        """Whether every singular value lies far from the tolerance, above or below."""
        counts = [count for steps in self.all_steps for count in steps]
        return min(c.kept for c in counts) > 1e-9 and max(c.dropped for c in counts) < DROPPED

    @property
    def lawful(self) -> bool:
        """Whether centring costs a rank exactly where the all-one row lies in the row space."""
        return all(
            steps.centred.rank == steps.read.rank - (distance < 1e-7)
            for key, of_layers in self.through.items()
            for steps, distance in zip(of_layers, self.apart[key], strict=True)
        )

    def of(self, step: str, tokens: int, which: str = "trained") -> list[int]:
        """Return the different ranks after one step of the LayerNorms, over all layers."""
        return sorted({getattr(steps, step).rank for steps in self.through[which, tokens]})

    def added_by_bias(self, which: str) -> list[int]:
        """Return by how much the bias changes the rank for the longer input, over all layers."""
        return sorted({steps.with_bias.rank - steps.with_gain.rank for steps in self.through[which, self.limit]})


def measure_ranks(networks: Mapping[str, torch.nn.Module], tokenizer, passages: Sequence[str]) -> Ranks:
    """Take ranks through the LayerNorms after attention: of fewer tokens than dimensions, and of all there can be."""
    config = networks["trained"].config
    width, limit = config.hidden_size, config.max_position_embeddings
    short = max(2, min(width // 3, limit // 2))
    joined = " ".join(passages)[: 20 * limit]
    through, apart, reads = {}, {}, {}
    for (which, network), tokens in product(networks.items(), (short, limit)):
        o = extraction.observe(network, tokenizer, [joined], tokens)
        read = [o.rows(i) + attend(o.rows(i), layer.attention).output for i, layer in enumerate(o.layers)]
        through[which, tokens] = [
            rank.ranks_through_norm(x, layer.norm_attention) for x, layer in zip(read, o.layers, strict=True)
        ]
        apart[which, tokens] = [rank.distance_of_ones(x) for x in read]
        if which == "trained":
            reads[f"n = {len(read[0])}, d = {width}"] = read[0].cpu()
            stations, norm = run_layer(o.rows(len(o.layers) - 1), o.layers[-1]), o.layers[-1].norm_mlp
            last = rank.ranks_through_norm(stations.before_second, norm)
            dead_gains = int((norm.gain.abs() < DEAD).sum())
    return Ranks(width, limit, short, through, apart, reads, last, dead_gains)
