"""The semi-bias of the first layer along the positions, and how often chance gives the same."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.decomposition.folding import fold_norm, fold_value_bias
from analysis.decomposition.qk_ov import update_bias
from analysis.decomposition.terms import ScoreTerms, score_terms, semi_bias, six_terms
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.controls import random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend, compute_scores, project, softmax
from analysis.transformer.layernorm import apply_norm, sigma
from book.lab.reference_modules import attention_module, gpt2_attention
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record, Result

# ---- A first layer

WINDOWS = 32  # of held-out text that gpt2-mini reads
SENTENCE = "If the name is not found in the module, the value of the expression is returned."


@dataclass(frozen=True)
class FirstLayer:
    """A pre-LN first layer and what it reads, in float64; ``tokens`` is ``None`` where the checkpoint has no table."""

    weights: AttentionLayer
    ln: Norm
    positions: Float[Tensor, "position model"]
    tokens: Float[Tensor, "vocab model"] | None

    @property
    def folded(self) -> AttentionLayer:
        """The layer with its LayerNorm folded in."""
        return fold_norm(self.weights, self.ln)

    @property
    def sigma_p(self) -> Float[Tensor, " position"]:
        """``sigma`` of the positions alone."""
        return sigma(self.positions, self.ln.eps)


def read(checkpoint: Checkpoint, layer: int = 0, *, device: torch.device | str = "cpu") -> FirstLayer:
    """Read the first layer of a GPT-2, or a deeper one with the same positions and tokens."""
    model = load(checkpoint, dtype=torch.float64)
    tokens = model.tokens
    return FirstLayer(
        model.layers[layer].plain().to(device),
        model.norm("attention", layer).to(device),
        model.positions.to(device),
        None if tokens is None else tokens.to(device),
    )


def control(checkpoint: Checkpoint, seed: int = 0, *, device: torch.device | str = "cpu") -> FirstLayer:
    """Draw the control: the same configuration, initialised at random and never trained."""
    model = pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)
    drawn = random_attention_layer(load(checkpoint), 0, seed, torch.float64).to(device)
    ones = torch.ones_like(drawn.b_O)
    ln = Norm(ones, 0 * ones, load(checkpoint).config.layer_norm_epsilon)
    return FirstLayer(drawn, ln, model.wpe.weight.data, model.wte.weight.data)


class TokenTable(NamedTuple):
    """For every token: norm of its embedding, semi-bias in each head of the first layer, count in a text."""

    norm: np.ndarray
    scores: np.ndarray
    counts: np.ndarray


def token_table(checkpoint: Checkpoint, text: str, *, device: torch.device | str = "cpu") -> TokenTable | None:
    """Measure norm, semi-bias and count of every token; ``None`` where the checkpoint has no token table.

    Counts are 0 where there is no tokenizer either. Ledger K-27, K-28.
    """
    layer = read(checkpoint, device=device)
    if layer.tokens is None or checkpoint.stands_in_for is not None:
        return None
    counts = np.zeros(len(layer.tokens), dtype=int)
    with suppress(NotFound):
        ids = pretrained.tokenizer(checkpoint).encode(text)
        counts += np.bincount(ids, minlength=len(counts))
    scores = semi_bias(layer.tokens, layer.weights)
    return TokenTable(layer.tokens.norm(dim=1).cpu().numpy(), scores.cpu().numpy(), counts)


def equality(e: Tensor, p: Tensor, layer: AttentionLayer, ln: Norm) -> dict[str, float]:
    """Hold the rewriting of a layer that reads ``LN(e + p)`` to transformers' module; errors relative to the scale.

    Beside the identities: what the module gives without ``b_K`` or ``b_Q``, and what the printed lines of the
    document would compute if taken at their word.
    """
    x = apply_norm(e + p, ln)
    ours = attend(x, layer)
    output, attention = _run_module(x, layer)
    due, terms = compute_scores(x, layer), score_terms(x, layer)
    two = (terms.content + terms.semi_bias).masked_fill(ours.attention == 0, -math.inf)
    pairs = {
        "attention": (ours.attention, attention),
        "output": (ours.output, output),
        "four_terms": (terms.total(), due),
        "two_terms": (softmax(two), attention),
        "two_terms_unscaled": (softmax(math.sqrt(layer.channel) * two), attention),
        "six_terms": (six_terms(e, p, layer, ln).total(), due),
        "value_folded": (_run_module(x, fold_value_bias(layer))[0], output),
    }
    no_key_bias = replace(layer, b_K=torch.zeros_like(layer.b_K))
    pairs["no_key_bias"] = (_run_module(x, no_key_bias)[0], output)
    pairs["no_query_bias"] = (_run_module(x, replace(no_key_bias, b_Q=torch.zeros_like(layer.b_Q)))[0], output)
    pairs |= {name: (wrong, output) for name, wrong in _misprints(x, layer, ours.attention).items()}
    return {name: float((found - due).abs().max() / due.abs().max()) for name, (found, due) in pairs.items()}


def _run_module(x: Tensor, layer: AttentionLayer) -> tuple[Tensor, Tensor]:
    """Return output and attention of transformers' GPT-2 attention with these weights on one sequence."""
    output, attention = attention_module("gpt2", layer)(x[None])
    return output[0], attention[0]


def _misprints(x: Tensor, layer: AttentionLayer, attention: Tensor) -> dict[str, Tensor]:
    """Return what the printed lines compute: ``v_h(x_i)``, ``b_V`` inside a sum over keys, ``b_VO`` over heads."""
    values = project(x, layer.W_V, layer.b_V)

    def out(heads):
        return torch.einsum("hqc,hcm->qm", heads, layer.W_O) + layer.b_O

    plain = attention @ (values - layer.b_V[:, None])
    keys = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device)[None, :, None]
    bias = update_bias(layer)
    bare = replace(layer, b_V=torch.zeros_like(layer.b_V), b_O=torch.zeros_like(layer.b_O))
    content = attend(x, bare).output
    return {
        "value_at_query": out(attention.sum(-1, keepdim=True) * values),
        "bias_in_sum_over_keys": out(plain + keys * layer.b_V[:, None]),
        "bias_in_sum_over_heads": content + layer.heads * bias,
        "bias_outside": content + bias,
    }


def map_error(positions: Float[Tensor, "position model"], layer: AttentionLayer) -> float:
    """Hold the semi-bias of positions to transformers' module, which forms every key; relative to the largest value.

    The module's query of a row of zeros is ``b_Q``, and its key of a position less that of zeros is ``p W_K``.
    """
    project_all = gpt2_attention(layer).c_attn
    query, key_of_zeros, _ = project_all(torch.zeros_like(positions[:1])).chunk(3, dim=-1)
    keys = project_all(positions).chunk(3, dim=-1)[1] - key_of_zeros
    by_head = (query * keys).unflatten(-1, (layer.heads, layer.channel)).sum(-1).T / math.sqrt(layer.channel)
    return float((semi_bias(positions, layer) - by_head).abs().max() / by_head.abs().max())


def loss_without(
    model: nn.Module, windows: Int[Tensor, "window position"], part: str | None = None, layers: tuple[int, ...] = (0,)
) -> float:
    """Return a GPT-2 language model's loss in nats per token once ``b_Q``, ``b_K`` or ``b_V`` of some layers is 0."""
    from copy import deepcopy

    model = deepcopy(model)
    for layer in layers if part else ():
        bias = model.transformer.h[layer].attn.c_attn.bias
        bias.chunk(3)[("b_Q", "b_K", "b_V").index(part)].zero_()
    scores = model(windows[:, :-1], use_cache=False).logits
    return float(nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten()))


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


# ---- Is GPT-2's semi-bias learned? Random query biases, the control, and what the biases change

PerHead = Float[np.ndarray, " head"]


@dataclass(frozen=True)
class Losses(Numbers):
    """What the query bias changes: gpt2-mini's loss in nats per token, and the output of GPT-2's first layer.

    ``keys_first`` is how many times as long a vocabulary's semi-bias takes where the keys are formed.
    """

    loss: float
    loss_bq: float  # by how much the loss rises without b_Q in the first layer
    no_bq: float  # change of the output without b_Q, as a share of its largest value
    keys_first: float


@dataclass(frozen=True)
class Chance(Numbers):
    """Rank correlation and size of GPT-2's semi-bias beside those of random query biases, and beside the control's."""

    rho: PerHead
    null_quantiles: Float[np.ndarray, "quantile head"]
    control: str  # the control's largest semi-bias
    ramp: float  # share of the squared length of the key direction along the table's third axis, median head
    ramp_null: float  # that of a random query bias: the largest median over heads, and the largest 95th percentile
    ramp_null_high: float
    ladder_spread_high: float  # largest spread in the median head of a control, in nats; and the trained one
    trained_spread: float
    permuted_low: int  # heads of the permuted layer whose semi-bias rises: fewest and most of the seeds
    permuted_high: int
    null_low: float  # median size of the correlations that random biases give, by head
    null_high: float
    null_share_low: float  # share of random biases with a correlation as large as the trained one
    null_share_high: float
    spread_low: float  # spread of the trained semi-bias over the median spread of random ones
    spread_high: float


@dataclass(frozen=True)
class SharedDirection(Numbers):
    """Cosines of the key directions of GPT-2's heads, beside those of two random query biases with the same keys."""

    cosines: Float[np.ndarray, "head head"]
    cosine_low: float  # of the local heads
    cosine_high: float
    cosine_null: float  # the largest 95th percentile, of the same pairs
    cosine_others: float  # the median of all other pairs


def measure_losses(
    gpt2: Record | Result, language_model: nn.Module, windows: Int[Tensor, "window position"], inputs: Inputs
) -> Losses:
    """Take biases away from gpt2-mini, and compare the times of the two orders of multiplication."""
    loss = loss_without(language_model, windows)
    if abs(loss_without(language_model, windows, "b_K", (0, 1)) - loss) >= 1e-10:
        raise AssertionError("the loss without b_K differs, while the page says that it stays the same to 1e-10")
    times, _ = live_or_record("peers-packages", inputs, recompute=False)
    return Losses(
        loss,
        loss_without(language_model, windows, "b_Q", (0,)) - loss,
        gpt2["error_no_query_bias"],
        times["semi_bias/keys_first/seconds"] / times["semi_bias/ours/seconds"],
    )


def measure_chance(gpt2: Record | Result, control: FirstLayer) -> Chance:
    """Set GPT-2's semi-bias beside random query biases and beside its controls."""
    quantiles, share, spread = (gpt2.array(name) for name in ("null_quantiles", "null_share", "spread_ratio"))
    ladder, random_share = np.median(gpt2.array("ladder_effective_std")[:, :, 0], -1), gpt2.array("random_share")
    rising = (gpt2.array("ladder_effective_rho")[-1, :, 0] > 0).sum(-1)
    return Chance(
        gpt2.array("rho"),
        quantiles,
        control=f"{float(semi_bias(control.positions, control.weights).abs().max()):.0f}",
        ramp=float(np.median(gpt2.array("direction_share")[:, 2])),
        ramp_null=float(random_share[0].max()),
        ramp_null_high=float(random_share[1].max()),
        ladder_spread_high=float(ladder.max()),
        trained_spread=float(np.median(gpt2.array("effective_std")[0])),
        permuted_low=int(rising.min()),
        permuted_high=int(rising.max()),
        null_low=float(quantiles[1].min()),
        null_high=float(quantiles[1].max()),
        null_share_low=float(share.min()),
        null_share_high=float(share.max()),
        spread_low=float(spread.min()),
        spread_high=float(spread.max()),
    )


def measure_shared_direction(gpt2: Record | Result, local: tuple[int, ...]) -> SharedDirection:
    """Compare the key directions of the heads that look at neighbours."""
    cosines, random = gpt2.array("direction_cosines"), gpt2.array("random_cosines")
    heads = range(len(cosines))
    pairs = {(h, g) for h in heads for g in heads if h < g}
    chosen = {(h, g) for h, g in pairs if h in local and g in local} or pairs
    others = pairs - chosen or pairs
    of_local = [cosines[pair] for pair in chosen]
    return SharedDirection(
        cosines,
        cosine_low=float(min(of_local)),
        cosine_high=float(max(of_local)),
        cosine_null=float(max(random[1][pair] for pair in chosen)),
        cosine_others=float(np.median([cosines[pair] for pair in others])),
    )
