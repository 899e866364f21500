"""What the next layer reads: composition of heads, and the terms of a score."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.block_mixing import expand_score, vanishing
from analysis.maps.distance import total_variation
from analysis.transformer.activations import LayerActivations
from analysis.transformer.attention import softmax
from analysis.transformer.attention_only import composition_scores
from analysis.transformer.head_layout import split
from analysis.transformer.layernorm import centre, sigma
from analysis.transformer.mlp import activation_mask
from book.studies.bert_stream.algebra import largest_error, relative_error
from book.studies.bert_stream.networks import LONGEST, Network, Subject


@dataclass(frozen=True)
class Composition:
    """How differently later heads read earlier ones."""

    scores: Mapping[str, Float[Tensor, "pair head later"]]
    """By network: composition through queries, for the heads of every two successive layers."""
    lengths: Float[np.ndarray, " head"]
    """The mean length of what each head of the layer adds to a row of the first text."""

    @property
    def length_ratio(self) -> float:
        """The longest mean update of a head over the shortest."""
        return self.lengths.max() / self.lengths.min()

    def peak(self, network: str) -> float:
        """Return the largest composition score over the median one."""
        return (self.scores[network].max() / self.scores[network].median()).item()


@dataclass(frozen=True)
class Expansion:
    """One head's score, of rows of the paper's form (5.16), as a table of terms."""

    parts: Float[Tensor, "part position model"]
    """What the rows are a sum of: the blocks, then the constants of b_1 and of b_2."""
    terms: int
    vanishing: int
    sum_error: float
    context_error: float
    """Of (5.17) with the transpose that it lacks."""


@dataclass(frozen=True)
class RealRows:
    """The same for a row as BERT has it: skip connection, masked MLP, b_1 and b_2, normalised, and beta."""

    parts: Float[Tensor, "part position model"]
    sum_error: float
    vanishing: Bool[np.ndarray, "query_part key_part"]
    moved: float
    """How much of a row's attention moves, in total variation, when b_2 is taken out of the keys."""


def measure_composition(subject: Subject, networks: Mapping[str, Network]) -> Composition:
    """Score the composition of heads in successive layers, and measure the update of every head."""
    scores = {
        name: torch.stack(
            [
                composition_scores(layer.attention.W_O, after.attention.W_Q)
                for layer, after in zip(network.layers, network.layers[1:])
            ]
        )
        for name, network in networks.items()
    }
    stations = networks["trained"].stations[subject.level][0]
    updates = split(stations.heads, subject.heads) @ subject.layer.attention.W_O
    return Composition(scores, updates.norm(dim=-1).mean(1).cpu().numpy())


def first_head(attention: AttentionLayer) -> list[Tensor]:
    """Return W_Q, W_K, b_Q and b_K of the first head."""
    return [attention.W_Q[0], attention.W_K[0], attention.b_Q[0], attention.b_K[0]]


def measure_expansion(subject: Subject) -> Expansion:
    """Multiply out a score of the first head of the next layer, for rows of the form that (5.16) gives them."""
    heads, mlp = subject.heads, subject.layer.mlp
    blocks = split(subject.first[:LONGEST], heads) @ mlp.W_in.unflatten(0, (heads, -1)) @ mlp.W_out
    constants = torch.stack([mlp.b_in @ mlp.W_out, mlp.b_out])
    parts = torch.cat([blocks, constants[:, None].expand(2, *blocks.shape[1:])])
    W_Q, W_K, b_Q, b_K = first_head(subject.after)
    terms, rows = expand_score(parts, W_Q, W_K, b_Q, b_K), parts.sum(0)
    context = sum(a @ W_Q @ W_K.T @ b.T for a in blocks for b in blocks)
    constant = vanishing(terms)
    return Expansion(
        parts=parts,
        terms=constant.numel(),
        vanishing=int(constant.sum()),
        sum_error=relative_error(terms.sum((0, 1)), (rows @ W_Q + b_Q) @ (rows @ W_K + b_K).T),
        context_error=relative_error(terms[:heads, :heads].sum((0, 1)), context),
    )


def measure_real_rows(subject: Subject, trained: Network) -> RealRows:
    """Multiply out the score of the rows that the next layer really reads, those of the first text."""
    stations = trained.stations[subject.level][0]
    parts = _parts_of_output(stations, subject)
    terms = expand_score(parts, *first_head(subject.after)) / subject.after.channel**0.5
    scores = terms.sum((0, 1))
    without = softmax((scores - terms[:, 3].sum(0))[None])
    return RealRows(
        parts=parts,
        sum_error=largest_error(parts.sum(0), stations.second),
        vanishing=vanishing(terms).cpu().numpy(),
        moved=total_variation(softmax(scores[None]), without).mean().item(),
    )


def _parts_of_output(stations: LayerActivations, subject: Subject) -> Tensor:
    """Split what the layer writes: all parts but beta are centred, multiplied by the gain and divided by sigma."""
    mlp, norm, x = subject.layer.mlp, subject.layer.norm_mlp, stations.first
    gates = activation_mask(x, mlp)
    raw = torch.stack([x, x @ mlp.W_in * gates @ mlp.W_out, mlp.b_in * gates @ mlp.W_out, mlp.b_out.expand_as(x)])
    scaled = centre(raw) / sigma(stations.before_second, norm.eps)[:, None] * norm.gain
    return torch.cat([scaled, norm.bias.expand_as(x)[None]])
