"""The score of one sentence, part by part, and the document's equations held to gpt2-mini's first layer."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.terms import ScoreTerms, score_terms, six_terms
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer.attention import attend, compute_scores, project
from analysis.transformer.layernorm import apply_norm
from book.studies.semi_bias.first_layer import FirstLayer

SENTENCE = "If the name is not found in the module, the value of the expression is returned."


@dataclass(frozen=True)
class Identities:
    """How far equations of the document are off in gpt2-mini's first layer, on the sentence; 0 is exact.

    Errors are relative to the largest value. No field is glued: a rounding error differs from machine to machine.
    """

    output_rows: float  # rows of W_O in blocks, against the heads' W_O
    input_columns: float  # columns of c_attn in blocks, against the heads' W_Q, W_K, W_V and their biases
    concatenation: float  # concatenated heads times W_O plus b_O, against the layer's output
    sum_over_heads: float  # the sum of the heads' outputs plus b_O, against the concatenation
    later_keys: float  # the largest weight of a later key
    row_sums: float  # the largest distance of a row's sum from 1
    key_bias_along_rows: float  # how much what b_K adds varies along a row, in standard deviations of the scores
    shifted_scores: float  # the largest change of a weight once 3 is added to every score
    content_without_biases: float  # how far the content is from queries times keys, both taken without their biases
    content_with_biases: float  # and from queries times keys as they are, which the softmax reads
    content_asymmetry: float  # norm of content less its transpose, in norms of content
    query_bias_across_queries: float  # how much what b_Q adds varies from query to query, as above


@dataclass(frozen=True)
class Sentence:
    """One sentence in gpt2-mini: its tokens, and the scores of the head with the strongest semi-bias, part by part."""

    ids: Int[Tensor, " token"]
    tokens: tuple[str, ...]
    parts: dict[str, Float[np.ndarray, "_query _key"]]
    identities: Identities


def measure_sentence(checkpoint: Checkpoint, mini: FirstLayer) -> Sentence:
    """Take the scores of one sentence apart, and hold the document's equations to them."""
    tokenizer = pretrained.tokenizer(checkpoint)
    ids = torch.tensor(tokenizer.encode(SENTENCE), device=mini.positions.device)
    embedded, p = mini.tokens[ids], mini.positions[: len(ids)]
    x = apply_norm(embedded + p, mini.ln)
    parts, six = score_terms(x, mini.weights), six_terms(embedded, p, mini.weights, mini.ln)
    total = compute_scores(x, mini.weights)
    head = int(parts.semi_bias[:, 0].std(1).argmax())
    shown = {
        "scores": total[head],
        "content": parts.content[head],
        "semi-bias": parts.semi_bias[head],
        "row constants": parts.query_side[head] + parts.kernel[head],
        "semi-bias of positions": six.p[head][None],
        "semi-bias of tokens": six.e[head][None],
    }
    return Sentence(
        ids,
        tuple(tokenizer.decode([i]).strip() for i in ids.tolist()),
        {name: part.cpu().numpy() for name, part in shown.items()},
        measure_identities(x, parts, checkpoint, mini.weights),
    )


def measure_identities(
    x: Float[Tensor, "position model"], parts: ScoreTerms, checkpoint: Checkpoint, layer: AttentionLayer
) -> Identities:
    """Compute both sides of the document's equations, its matrices cut from the parameters as they were stored."""
    tensors, names = load(checkpoint, dtype=torch.float64).tensors, ("c_attn.weight", "c_attn.bias", "c_proj.weight")
    W_QKV, b_QKV, W_O = (tensors.need(f"h.0.attn.{name}").to(x.device) for name in names)
    ours, scores = attend(x, layer), compute_scores(x, layer)
    heads = torch.einsum("hqk,hkc->qhc", ours.attention, project(x, layer.W_V, layer.b_V)).flatten(1)
    concatenation = heads @ W_O + layer.b_O
    row_constants = scores - parts.content - parts.semi_bias
    column_constants = scores - parts.content - parts.query_side - parts.kernel
    return Identities(
        output_rows=float((W_O.unflatten(0, (layer.heads, layer.channel)) - layer.W_O).abs().max()),
        input_columns=_distance_of_columns(W_QKV, b_QKV, layer),
        concatenation=_relative_error(concatenation, ours.output),
        sum_over_heads=_relative_error(ours.updates.sum(0) + layer.b_O, concatenation),
        later_keys=float(ours.attention.triu(1).abs().max()),
        row_sums=float((ours.attention.sum(-1) - 1).abs().max()),
        key_bias_along_rows=float(row_constants.std(-1).max() / scores.std()),
        shifted_scores=float(((scores + 3).softmax(-1) - scores.softmax(-1)).abs().max()),
        content_without_biases=_relative_error(plain_scores(x, layer), parts.content),
        content_with_biases=_relative_error(scores, parts.content),
        content_asymmetry=float((parts.content - parts.content.mT).norm() / parts.content.norm()),
        query_bias_across_queries=float(column_constants.std(1).max() / scores.std()),
    )


def plain_scores(x: Float[Tensor, "position model"], layer: AttentionLayer) -> Float[Tensor, "head query key"]:
    """Return products of queries and keys that were formed without their biases, over the root of the width."""
    queries, keys = (project(x, W, torch.zeros_like(layer.b_Q)) for W in (layer.W_Q, layer.W_K))
    return queries @ keys.mT / layer.channel**0.5


def _relative_error(result: Tensor, expected: Tensor) -> float:
    return float((result - expected).abs().max() / expected.abs().max())


def _distance_of_columns(W_QKV: Tensor, b_QKV: Tensor, layer: AttentionLayer) -> float:
    """Cut the columns into queries, keys and values, each into heads; return the largest distance from the layer's."""
    by_head = (3, layer.heads, layer.channel)
    W = torch.stack([layer.W_Q, layer.W_K, layer.W_V]).movedim(2, 0)
    b = torch.stack([layer.b_Q, layer.b_K, layer.b_V])
    return float(max((W_QKV.unflatten(1, by_head) - W).abs().max(), (b_QKV.unflatten(0, by_head) - b).abs().max()))
