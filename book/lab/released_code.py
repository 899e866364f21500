"""What the released code of "The geometry of BERT" computes, and what its authors recorded.

The code is public under GPL-3.0 (github.com/Giorgia3/BERT-based-SARSCoV2-variant-identification); nothing of it is
copied here. Each function says which step it stands for. The chapters compare these steps with the paper's formulas.

PyTorch stores a linear map as (output, input) and multiplies by its transpose. The code multiplies by the stored matrix
itself and cuts its columns into heads; :func:`stored_blocks` has these columns.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import yaml
from einops import rearrange
from jaxtyping import Float, Int
from scipy.stats import pearsonr, spearmanr
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Projected, Residual
from analysis.maps import entropy, gates
from analysis.matrices.spectra import spectral_norm
from analysis.models.reading import load
from analysis.representations import anisotropy
from analysis.transformer.head_layout import concatenate
from analysis.transformer.layernorm import normalise
from book.lab.dna.kmers import K, kmers
from book.lab.mathematics import stretching
from book.publish.records import Record, Result

# ---- What the released code of "The geometry of BERT" computes, written anew from a description of it

BINS = 20
"""Bins of the entropy of figure 12."""
HIDDEN_BELOW = 0.01
"""Cells of a map below this are not drawn in figures 3 to 7."""
ROWS, TOKENS = 512, 427
"""Rows of every sequence, and those of them that are tokens: [CLS], 425 words and [SEP]; the rest is padding."""
TEST_SHARE, VALIDATION_SHARE = 0.20, 0.08
"""The share of the sequences that are tested, and that of the others on which the model is validated."""
BATCH, EPOCHS, WARMUP_SHARE = 4, 2, 0.1
BASE_VOCABULARY = 28_996
"""Tokens of bert-base-cased, from which the training starts."""
SHARE = 0.90
"""The share of a row that :func:`minimal_keys` asks for."""


def stored_blocks(W: Float[Tensor, "head model channel"]) -> Float[Tensor, "head model channel"]:
    """Return the columns of the stored weight that the code takes for each head's matrix.

    The stored weight is the transpose of the heads' matrices side by side. Its columns are input features: block ``h``
    holds what the features ``h c`` to ``h c + c - 1`` contribute to all outputs. It is the head's matrix if the whole
    weight is symmetric.

    >>> stored_blocks(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])).squeeze(-1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    stored = rearrange(W, "head model channel -> (head channel) model")
    return rearrange(stored, "output (head channel) -> head output channel", head=len(W))


def with_stored_blocks(weights: AttentionLayer, *, biased: bool = False) -> AttentionLayer:
    """Return a layer's weights with the code's matrices in the place of its own; without the biases by default."""
    own = {f"W_{name}": stored_blocks(getattr(weights, f"W_{name}")) for name in "QKV"}
    return replace(weights, **own) if biased else without_biases(replace(weights, **own))


def without_biases(weights: AttentionLayer) -> AttentionLayer:
    """Return a layer's weights with b_Q, b_K and b_V set to 0."""
    return replace(weights, **{f"b_{name}": torch.zeros_like(getattr(weights, f"b_{name}")) for name in "QKV"})


def first_norm_rows(x: Residual, attention: Attention, values: Projected, epsilon: float) -> Residual:
    """Return the code's rows "after the first LayerNorm": x plus the heads side by side, normalised.

    There is no W_O, and the LayerNorm is a new one: gain 1, bias 0. It is (5.9) of the paper.
    """
    return normalise(x + concatenate(attention @ values), epsilon)


def cone_index(rows: Float[Tensor, "*batch position model"]) -> Float[Tensor, "*batch"]:
    """Return the code's cone index: the length of the sum of the rows after each was divided by its length.

    Between 0 and the number of rows. (5.1) sums the rows as they are.

    >>> cone_index(torch.tensor([[3.0, 0.0], [5.0, 0.0]]))
    tensor(2.)
    """
    return anisotropy.cone_index(anisotropy.unit(rows))


def value_entropy(maps: Float[Tensor, "*batch query key"], bins: int = BINS) -> Float[Tensor, "*batch"]:
    """Return the code's entropy of a map: that of the histogram of its entries, in nats.

    The bins are equal, from the smallest entry to the largest, closed on the right. Where an entry stands does not
    matter. A map with one value has entropy 0; the most is ln ``bins``.

    >>> value_entropy(torch.full((4, 4), 0.25))
    tensor(0.)
    >>> value_entropy(torch.eye(2)).exp().round(decimals=3)  # as many zeros as ones
    tensor(2.)
    """
    entries = maps.flatten(-2)
    low, high = entries.amin(-1, keepdim=True), entries.amax(-1, keepdim=True)
    width = torch.where(high > low, high - low, 1)
    levels = ((entries - low) / width * bins).ceil().long().clamp(1, bins) - 1
    counts = torch.zeros(*entries.shape[:-1], bins, dtype=maps.dtype, device=maps.device)
    counts.scatter_add_(-1, levels, torch.ones_like(entries))
    return torch.special.entr(counts / entries.shape[-1]).sum(-1)


def blank_from(
    maps: Float[Tensor, "*batch query key"], end: int, size: int = ROWS
) -> Float[Tensor, "*batch size size"]:
    """Lay maps into the upper left corner of a square of zeros, up to and without position ``end``.

    ``end`` is where [SEP] stands: its row and column, and those of the padding after it, are zeros in the code's maps.
    The rows that are left no longer sum to 1.

    >>> blank_from(torch.eye(3), end=2, size=3).diagonal()
    tensor([1., 1., 0.])
    """
    laid = maps.new_zeros(*maps.shape[:-2], size, size)
    laid[..., :end, :end] = maps[..., :end, :end]
    return laid


def minimal_keys(attention: Attention, share: float = SHARE) -> Int[Tensor, "*batch head query"]:
    """Count the fewest keys of each row that together hold a share of its attention.

    >>> minimal_keys(torch.tensor([[[0.5, 0.45, 0.05], [0.95, 0.05, 0.0], [0.4, 0.3, 0.3]]]))
    tensor([[2, 1, 3]])
    """
    smallest_first = np.sort(attention.cpu().numpy(), axis=-1)  # many times as fast as torch.sort on the CPU
    totals = torch.from_numpy(smallest_first).flip(-1).cumsum(-1)
    return (totals < share).sum(-1) + 1


def padded_words(bases: str) -> list[str]:
    """Cut a gene as the code does: N is added until the length is a multiple of the word's, then one word every nine.

    >>> len(padded_words("A" * 3822)), len(kmers("A" * 3822))
    (425, 424)
    """
    return kmers(bases + "N" * (-len(bases) % K))


def split_sizes(sequences: int) -> tuple[int, int, int]:
    """Return how many sequences are trained on, validated on and tested, rounded up as scikit-learn rounds.

    >>> split_sizes(49_403)
    (36360, 3162, 9881)
    """
    tested = math.ceil(TEST_SHARE * sequences)
    validated = math.ceil(VALIDATION_SHARE * (sequences - tested))
    return sequences - tested - validated, validated, tested


def count_updates(training: int) -> tuple[int, int]:
    """Return the updates that the schedule of the learning rate is made for, and those of its warm-up.

    >>> count_updates(36_360)
    (18180, 1818)
    """
    return EPOCHS * (training // BATCH), int(EPOCHS * training * WARMUP_SHARE / BATCH)


def build_classifier(vocabulary: int, classes: int) -> nn.Module:
    """Build the library's BERT_BASE classifier, as the code takes it, without memory for its weights."""
    from transformers import BertConfig, BertForSequenceClassification

    with torch.device("meta"):
        return BertForSequenceClassification(BertConfig(vocab_size=vocabulary, num_labels=classes))


# ---- The code's heads beside the model's: largest singular values of the weights, and of what the heads write


class Slices(NamedTuple):
    """Largest singular values of the heads' matrices and of the code's columns, and how they go together by map."""

    heads: Float[np.ndarray, "map layer head"]
    columns: Float[np.ndarray, "map layer head"]
    correlation: Float[np.ndarray, " map"]
    rank_correlation: Float[np.ndarray, " map"]


def compare_slices(model: torch.nn.Module) -> Slices:
    """Take the largest singular values of every head's matrices and of the code's columns."""
    layers = [layer.attention for layer in load(model).encoder_layers()]
    heads = stretching.over_heads(spectral_norm, layers).cpu().numpy()
    columns = stretching.over_heads(spectral_norm, [with_stored_blocks(each) for each in layers]).cpu().numpy()
    pairs = [(own.ravel(), column.ravel()) for own, column in zip(heads, columns)]
    return Slices(
        heads,
        columns,
        np.array([pearsonr(*pair).statistic for pair in pairs]),
        np.array([spearmanr(*pair).statistic for pair in pairs]),
    )


def correlate_outputs(record: Record | Result, network: str) -> float:
    """Return the rank correlation over all heads of the largest singular values of S V: the model's and the code's."""
    own, coded = (record.array(f"{network}/{kind}").mean(0).ravel() for kind in ("largest", "code_largest"))
    return float(spearmanr(own, coded).statistic)


# ---- Entropies of one map in two readings, where the answer is known: ideal gates, and maps of noise

DEVIATIONS = (0.01, 0.1, 0.5, 1.0, 2.0)
"""Standard deviations of the Gaussian scores of maps of noise."""
CLUSTER = range(100, 164)
"""Queries and keys of the cluster whose entropy is taken."""


class MapEntropies(NamedTuple):
    """The code's entropy of one map, whole and in the code's layout, in nats, and that of its rows over ln n."""

    whole: float
    blanked: float
    rows: float


def measure_map(attention: Float[Tensor, "query key"]) -> MapEntropies:
    """Take the entropies of one map; the code's layout keeps all tokens but the last, [SEP]."""
    blanked = blank_from(attention[:TOKENS, :TOKENS], TOKENS - 1)
    return MapEntropies(
        value_entropy(attention).item(),
        value_entropy(blanked).item(),
        entropy.relative_entropy(attention[None]).mean().item(),
    )


def make_gates(n: int = ROWS) -> dict[str, Float[Tensor, "query key"]]:
    """Return the ideal gates of so many rows, by name."""
    return {
        "closed": gates.closed(n),
        "directional": gates.directional(n, 5),
        "open": gates.open_gate(n),
        "backward": gates.backward(n, 1),
        "instance": gates.instance(n, 7, 2),
        "cluster": gates.cluster(n, CLUSTER, CLUSTER),
    }


def draw_noise(deviation: float, n: int = ROWS) -> Float[Tensor, "query key"]:
    """Return the map of independent Gaussian scores."""
    scores = torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (deviation * scores).softmax(-1)


def measure_gates() -> dict[str, MapEntropies]:
    """Take the entropies of the ideal gates, by name."""
    return {name: measure_map(gate) for name, gate in make_gates().items()}


def measure_noise() -> dict[float, MapEntropies]:
    """Take the entropies of maps of noise, by the standard deviation of their scores."""
    return {deviation: measure_map(draw_noise(deviation)) for deviation in DEVIATIONS}


# ---- The numbers that were read off the authors' recorded outputs, from ``authors_outputs.yml`` beside this module

PATH = Path(__file__).with_name("authors_outputs.yml")


@dataclass(frozen=True)
class AuthorsOutputs:
    """What the recorded outputs show; the file names commit and cell of each.

    ``minimal_keys`` are medians over rows, ``singular_values`` how many sequences have how many of them.
    """

    start: str
    batch: int
    epochs: int
    rate: float
    rows: int
    minimal_keys: Float[np.ndarray, "layer head"]
    singular_values: dict[int, int]
    plateaus: tuple[int, ...]


@cache
def load_authors_outputs(path: Path = PATH) -> AuthorsOutputs:
    """Read the file."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return AuthorsOutputs(
        **{name: entries["settings"][name] for name in ("start", "batch", "epochs", "rate", "rows")},
        minimal_keys=np.array(entries["minimal_keys"]["medians"], float),
        singular_values=entries["singular_values"]["counts"],
        plateaus=tuple(entries["word_counts"]["plateaus"]),
    )
