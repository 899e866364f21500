"""Forms of one head: patterns and messages, other rewritings, and rotary positions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.axes import Residual
from analysis.decomposition import qk_ov
from analysis.decomposition.terms import semi_bias
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend, mask_future, project, softmax
from book import publish
from book.lab.mathematics import operation_counts
from book.lab.reference_modules import attention_module
from book.publish import Inputs, Numbers
from book.publish.phrases import enumerated, percent
from book.studies.shared.equality import draw, gaps, random_layer, relative_gap

# ---- What the factored, merged and input-cached forms of a layer cost, counted and timed

GPT2_SIZE = {"model": 768, "head": 12, "channel": 64}


@dataclass(frozen=True)
class Count:
    """Multiply-adds of one form as torch ran them and as the formula has them, and the error of its output."""

    counted: int
    formula: int
    error: float


@dataclass(frozen=True)
class Costs(Numbers):
    """What the three forms of a layer cost: counted, over the length, and in seconds as they were recorded.

    ``ratios`` are those of the merged form to the factored one.
    """

    merged_short: str
    merged_long: str
    merged_lengths: str  # those that were timed; the ratios at each
    merged_counted: str
    merged_measured: str
    counts: Mapping[str, Count]
    ratios: Mapping[str, float]
    lengths: np.ndarray
    curves: Mapping[str, Mapping[str, np.ndarray]]
    timed_lengths: np.ndarray
    seconds: Mapping[str, np.ndarray]


def measure_costs(layer: AttentionLayer, x: Residual, inputs: Inputs) -> Costs:
    """Count multiply-adds of the three forms, and read the recorded seconds."""
    record, _ = publish.live_or_record("patterns-and-messages-costs", inputs, recompute=False)
    seconds = dict(zip(operation_counts.FORMS, record.array("seconds"), strict=True))
    lengths = np.unique(np.logspace(0, 5, 40).astype(int))
    curves = {
        title: {
            form: np.array([getattr(operation_counts.cost(form, int(n), **GPT2_SIZE), quantity) for n in lengths])
            for form in operation_counts.FORMS
        }
        for title, quantity in (("multiply-adds", "sequence"), ("cache (numbers)", "cache"))
    }
    merged, factored = (operation_counts.cost(form, 1, **GPT2_SIZE) for form in ("merged", "factored"))
    ratios = {
        "short": merged_ratio(1),
        "long": merged_ratio(10**6),
        "wide head": merged_ratio(64, head=1, channel=768),
        "parameters": merged.parameters / factored.parameters,
    }
    return Costs(
        merged_short=f"{ratios['short']:.1f}",
        merged_long=f"{ratios['long']:.1f}",
        merged_lengths=enumerated(record.array("lengths").tolist()),
        merged_counted=enumerated([merged_ratio(length) for length in record.array("lengths").tolist()], ".1f"),
        merged_measured=enumerated(seconds["merged"] / seconds["factored"], ".1f"),
        counts={form: count(form, layer, x[:1]) for form in operation_counts.FORMS},
        ratios=ratios,
        lengths=lengths,
        curves=curves,
        timed_lengths=record.array("lengths"),
        seconds=seconds,
    )


def merged_ratio(n: int, model: int = 768, head: int = 12, channel: int = 64) -> float:
    """Return the multiply-adds of the merged form over those of the factored one, for a sequence of ``n`` positions."""
    merged, factored = (
        operation_counts.cost(form, n, model, head, channel).sequence for form in ("merged", "factored")
    )
    return merged / factored


def count(form: str, layer: AttentionLayer, x: Residual) -> Count:
    """Count the multiply-adds of one form as torch runs it, and hold its output to the layer's."""
    layer = replace(layer, mask=Mask(causal=True))
    run = operation_counts.prepare(form, layer)
    with FlopCounterMode(display=False) as counter:
        output = run(x)
    formula = operation_counts.cost(form, x.shape[-2], layer.model, layer.heads, layer.channel).sequence
    return Count(counter.get_total_flops() // 2, formula, relative_gap(output, attend(x, layer).output))


# ---- Heads rewritten as patterns and messages: the document's steps, the modules, and what the factors leave open


@dataclass(frozen=True)
class Equality:
    """The forms of ``equality.gaps`` against the modules: the random layer in both families, and GPT-2's layers."""

    random: Mapping[str, Mapping[str, float]]
    gpt2: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class BiasFree:
    """The document's own layer, the random one without biases, step by step.

    ``errors`` are the largest differences to ``BertSelfAttention`` or to torch's functions, as shares of the largest
    entry; ``one_input`` is how far off the form is that writes X for three different inputs. ``other_messages`` is
    how much a message changes when another row of the input does.
    """

    errors: Mapping[str, float]
    one_input: float
    other_messages: float


@dataclass(frozen=True)
class Gauge:
    """The random layer before and after a random change of its factors that leaves their products alone.

    ``G`` acts on queries and keys, ``F`` on values. ``moved`` is the change of W_Q, ``unchanged`` the changes of what
    belongs to the head, as shares; the ranks are those of W_P and W_M.
    """

    G: Float[Tensor, "head channel other"]
    F: Float[Tensor, "head channel other"]
    moved: float
    unchanged: Mapping[str, float]
    pattern_ranks: np.ndarray
    message_ranks: np.ndarray


def measure_rewriting(layer: AttentionLayer, x: Residual) -> dict[str, float]:
    """Hold patterns and messages to GPT2Attention, and the scores of the constant part to the semi-bias."""
    ours = qk_ov.attend_by_patterns(x, replace(layer, mask=Mask(causal=True))).output
    constant_patterns = qk_ov.constant_pattern(layer)[:, None].expand(len(x), -1, -1, -1)
    constant = qk_ov.match(constant_patterns, x, layer.channel)[:, :, 0]
    return {
        "output": relative_gap(ours, attention_module("gpt2", layer)(x)[0]),
        "semi-bias": relative_gap(constant, semi_bias(x, layer)),
    }


def measure_equality(layer: AttentionLayer, x: Residual, inputs: Inputs) -> tuple[Equality, str]:
    """Hold all forms to the modules; return them with where GPT-2's numbers come from."""
    record, source = publish.live_or_record("patterns-and-messages-equality-gpt2", inputs)
    random = {family: gaps(family, layer, x) for family in ("gpt2", "bert")}
    return Equality(random, {name: record.array(name) for name in random["gpt2"]}), source


def measure_bias_free(layer: AttentionLayer, x: Residual) -> BiasFree:
    """Take the document's steps one by one, on a layer without biases that sees all keys."""
    Q, K, V = (project(x, W, b) for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V)))
    root = layer.channel**0.5
    output, attention = attention_module("bert", layer)(x)
    per_head = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
    W_P, W_M, wide = qk_ov.qk_matrix(layer), qk_ov.ov_matrix(layer), x[:, None]
    concatenated = per_head.transpose(1, 2).reshape(x.shape) @ layer.W_O.reshape(-1, layer.model)
    summed = torch.einsum("bhnc,hcd->bnd", per_head, layer.W_O)
    cross, one_input = measure_cross_attention(layer)
    pairs = {
        "concatenation": (concatenated, output),
        "torch's attention": (softmax(Q @ K.mT / root) @ V, per_head),
        "sum over heads": (summed, output),
        "sum and concatenation": (summed, concatenated),
        "values first": ((attention @ (V @ layer.W_O)).sum(1), output),
        "attention": (softmax(Q @ K.mT / root), attention),
        "messages": (wide @ W_M, qk_ov.messages(x, layer)),
        "sum of messages": ((attention @ (wide @ W_M)).sum(1), output),
        "patterns": (wide @ W_P, qk_ov.patterns(x, layer)),
        "scores": (wide @ W_P @ wide.mT, Q @ K.mT),
    }
    changed = x.clone()
    changed[:, 0] += 1
    moved = (changed[:, None] @ W_M - wide @ W_M).abs()
    return BiasFree(
        {name: relative_gap(*pair) for name, pair in pairs.items()} | {"cross-attention": cross},
        one_input,
        moved[:, :, 1:].max().item(),
    )


def measure_cross_attention(layer: AttentionLayer) -> tuple[float, float]:
    """Hold the form with three inputs to torch's MultiheadAttention; return its error, and that of X for all three."""
    where = layer.W_Q.device
    queries, keys, values = (draw(1, n, 12, seed=seed, device=where) for n, seed in ((5, 7), (8, 8), (8, 9)))
    module = torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True, dtype=torch.float64, device=where)
    flat = [W.transpose(0, 1).reshape(12, 12).T for W in (layer.W_Q, layer.W_K, layer.W_V)]
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat(flat))
        module.out_proj.weight.copy_(layer.W_O.reshape(12, 12).T)
        output = module(queries, keys, values)[0]
    sought = qk_ov.patterns(queries, layer)
    forms = (
        qk_ov.deliver(softmax(qk_ov.match(sought, k, layer.channel)), qk_ov.messages(v, layer)).sum(1)
        for k, v in ((keys, values), (queries, queries))
    )
    error, one_input = (relative_gap(form, output) for form in forms)
    return error, one_input


def measure_gauge(layer: AttentionLayer, x: Residual) -> Gauge:
    """Change the factors of the random layer."""
    G, F = (draw(3, 4, 4, seed=seed, device=x.device) for seed in (5, 6))
    turned = qk_ov.change_gauge(layer, G, F)
    pairs = {
        "W_P": (qk_ov.qk_matrix(turned), qk_ov.qk_matrix(layer)),
        "W_M": (qk_ov.ov_matrix(turned), qk_ov.ov_matrix(layer)),
        "b_P": (qk_ov.constant_pattern(turned), qk_ov.constant_pattern(layer)),
        "output": (attend(x, turned).output, attend(x, layer).output),
    }
    return Gauge(
        G,
        F,
        relative_gap(turned.W_Q, layer.W_Q),
        {name: relative_gap(*pair) for name, pair in pairs.items()},
        torch.linalg.matrix_rank(qk_ov.qk_matrix(layer)).cpu().numpy(),
        torch.linalg.matrix_rank(qk_ov.ov_matrix(layer)).cpu().numpy(),
    )


# ---- Patterns under rotary embeddings: one matrix per offset, and how many fixed matrices they are made of

TOO_SMALL_TO_DRAW = 1e-7


@dataclass(frozen=True)
class Rotary(Numbers):
    """Pattern matrices under rotary embeddings: ``distance`` (offset, head) to offset 0 as a share of the norm.

    ``remainder`` is what the best 1, 2, ... fixed matrices leave of the rotations; ``errors`` are differences of
    attention maps to those of LlamaAttention.
    """

    rotary_one: str
    rotary_best: str  # what the best single matrix leaves of the variance, in per cent
    rotary_tenth: str
    offsets: np.ndarray
    distance: np.ndarray
    remainder: np.ndarray
    errors: Mapping[str, float]


def measure_rotary(layer: AttentionLayer, x: Residual, longest: int = 128) -> Rotary:
    """Compare the pattern matrices of offsets 0 to ``longest``, and hold the rotary form to LlamaAttention."""
    wide = random_layer(4, 128, 64).to(x.device)
    W_P = torch.stack([qk_ov.rotary_qk_matrix(wide, offset) for offset in range(longest + 1)])
    distance = ((W_P - W_P[0]).norm(dim=(2, 3)) / W_P[0].norm(dim=(1, 2))).cpu().numpy()
    remainder = qk_ov.rotary_remainder(longest + 1, 64).numpy()
    _, llama = attention_module("llama", layer)(x)
    maps = {
        "rotary form": positional_encodings.rotary_scores(x, layer),
        "no b_K": positional_encodings.rotary_scores(x, replace(layer, b_K=0 * layer.b_K)),
        "one W_P": qk_ov.match(qk_ov.patterns(x, layer), x, layer.channel),
    }
    errors = {name: (softmax(mask_future(scores)) - llama).abs().max().item() for name, scores in maps.items()}
    return Rotary(
        rotary_one=f"{distance[1].mean():.2f}",
        rotary_best=percent(remainder[0] ** 2),
        rotary_tenth=str(int((remainder >= 0.1).sum()) + 1),
        offsets=np.arange(longest + 1),
        distance=distance,
        remainder=remainder[remainder > TOO_SMALL_TO_DRAW],
        errors=errors,
    )
