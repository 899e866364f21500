"""The model and its control on the chapter's texts, and identities of blocks on random matrices."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.core.weights import EncoderLayer
from analysis.data import texts
from analysis.maps.gates import directional
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from analysis.transformer.head_layout import block_of, concatenate, printed_block_of, stack
from book.publish import Inputs
from book.studies.shared.ladder import SEEDS
from book.studies.shared.layer_lines import by_depth

# ---- Identities of blocks and of scores on random matrices of the paper's size; no model

HEADS, WIDTH, TOKENS = 12, 64, 512
MODEL = HEADS * WIDTH


@dataclass(frozen=True)
class Algebra:
    """How far the identities miss, as largest differences of entries or relative norms."""

    wrong_columns: int
    """Columns of a concatenation for which the corrected index formula names another column of another block."""
    wrong_rows: int
    """Rows of a transposed concatenation for which it does."""
    whole: int
    """Columns for which the printed formula gives a whole number for the block."""
    zeros: int
    """Columns for which it gives 0 for the place in the block."""
    product_error: float
    sum_error: float
    four_terms_error: float
    printed_context_error: float
    """Of (5.17) without the transpose, where there are as many tokens as coordinates so that it can be computed."""
    mixture_error: float
    """Of a random map as a mixture, with weights for every row, of directional gates."""


def draw(*shape: int, seed: int = 0) -> Float[Tensor, "..."]:
    """Draw a float64 tensor of standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def relative_error(value: Tensor, exact: Tensor) -> float:
    """Return the norm of the difference of two tensors, over that of the second."""
    return ((value - exact).norm() / exact.norm()).item()


def largest_error(value: Tensor, exact: Tensor) -> float:
    """Return the largest difference of two tensors' entries."""
    return (value - exact).abs().max().item()


def measure_algebra() -> Algebra:
    """Compare both sides of each identity, and the printed index formulas with the corrected ones."""
    columns, rows = _count_wrong()
    printed = [printed_block_of(k, WIDTH, HEADS) for k in range(1, MODEL + 1)]
    Y, X, Z = draw(7, 5), draw(12, 5, 3, seed=1), draw(12, 3, 6, seed=2)
    return Algebra(
        wrong_columns=columns,
        wrong_rows=rows,
        whole=sum(i.is_integer() for i, _ in printed),
        zeros=sum(c == 0 for _, c in printed),
        product_error=largest_error(Y @ concatenate(X), concatenate(Y @ X)),
        sum_error=largest_error(concatenate(X) @ stack(Z), (X @ Z).sum(0)),
        four_terms_error=_four_terms_error(),
        printed_context_error=_printed_context_error(),
        mixture_error=_mixture_error(),
    )


def _count_wrong() -> tuple[int, int]:
    """Count the columns, and the rows of the transpose, that are not where the corrected formula says."""
    X = draw(HEADS, 2, WIDTH)
    joined, stacked = concatenate(X), stack(X.mT)
    places = [block_of(k, WIDTH) for k in range(1, MODEL + 1)]
    columns = sum(not torch.equal(joined[:, k], X[i - 1, :, c - 1]) for k, (i, c) in enumerate(places))
    rows = sum(not torch.equal(stacked[k], X[i - 1, :, c - 1]) for k, (i, c) in enumerate(places))
    return columns, rows


def _four_terms_error() -> float:
    """Multiply out one head's score (5.15), and compare the sum of its four terms with the score."""
    X, A, B = draw(TOKENS, MODEL), draw(MODEL, WIDTH, seed=1), draw(MODEL, WIDTH, seed=2)
    a, b = draw(WIDTH, seed=3), draw(WIDTH, seed=4)
    four = X @ A @ B.T @ X.T + (a @ B.T @ X.T)[None, :] + (X @ A @ b)[:, None] + a @ b
    return relative_error((X @ A + a) @ (X @ B + b).T, four)


def _printed_context_error() -> float:
    """Compare (5.17) as printed, for as many tokens as coordinates, with the product that it stands for."""
    blocks, M = draw(3, WIDTH, WIDTH), draw(WIDTH, WIDTH, seed=1)
    X = blocks.sum(0)
    return relative_error(sum(a @ M @ b for a in blocks for b in blocks), X @ M @ X.T)


def _mixture_error() -> float:
    """Write a random map as the sum of directional gates, each weighted by the map's column."""
    attention = draw(WIDTH, WIDTH).softmax(-1)
    columns = torch.stack([directional(WIDTH, key) for key in range(WIDTH)])
    return largest_error(sum(attention[:, key, None] * gate for key, gate in enumerate(columns)), attention)


# ---- The model and its control on the chapter's texts, in float64

COUNT, LONGEST = 8, 96  # the texts for what is computed with the page, and the tokens at which they are cut


@dataclass(frozen=True)
class Network:
    """One network, its layers, and what passed them."""

    model: torch.nn.Module
    layers: list[EncoderLayer]
    states: list[Float[Tensor, "state position model"]]
    """For each text, what every layer read and what the last one wrote."""
    stations: list[list[LayerActivations]]
    """By layer, then by text."""


@dataclass(frozen=True)
class Subject:
    """What the chapter is about: the checkpoint, and the layer of the trained model that is looked at closely."""

    checkpoint: Checkpoint
    depth: int
    heads: int
    width: int
    level: int
    """Which layer is looked at, counted from 0; never the last."""
    layer: EncoderLayer
    after: AttentionLayer
    """The attention of the layer after it."""
    before_first: Residual
    """What its first LayerNorm reads, the rows of all texts one after another."""
    first: Residual
    """What its first LayerNorm writes and its perceptron reads, the rows of all texts."""


def run_networks(inputs: Inputs) -> tuple[Subject, dict[str, Network]]:
    """Run the trained model and its control on the texts, and choose the layer that is looked at."""
    checkpoint = checkpoints.find(inputs.model)
    passages = texts.passages(count=COUNT, source=inputs.texts)
    networks = {
        name: _run(
            pretrained.load(checkpoint, control_seed=seed, device=inputs.device),
            pretrained.tokenizer(checkpoint),
            passages,
        )
        for name, seed in SEEDS.items()
    }
    trained = networks["trained"]
    level = by_depth(len(trained.layers))[-2]
    layer = trained.layers[level]
    return Subject(
        checkpoint=checkpoint,
        depth=len(trained.layers),
        heads=layer.attention.heads,
        width=layer.attention.model,
        level=level,
        layer=layer,
        after=trained.layers[level + 1].attention,
        before_first=torch.cat([stations.before_first for stations in trained.stations[level]]),
        first=torch.cat([stations.first for stations in trained.stations[level]]),
    ), networks


def _run(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> Network:
    longest = min(LONGEST, model.config.max_position_embeddings)
    states = [text.double() for text in extraction.hidden_states(model, tokenizer, passages, longest)]
    layers = [layer.to(torch.float64) for layer in load(model).encoder_layers()]
    stations = [[run_layer(text[level], layer) for text in states] for level, layer in enumerate(layers)]
    return Network(model, layers, states, stations)
