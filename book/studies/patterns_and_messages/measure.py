"""What the chapter on patterns and messages shows: the rewriting, readings on text, spectra, rotary forms, costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from analysis.core.axes import Residual
from analysis.core.weights import AttentionWeights
from analysis.decomposition import cost, qk_ov
from analysis.decomposition.score_terms import semi_bias
from analysis.matrices import singular_values
from analysis.models import checkpoints
from analysis.models.reference_modules import attention_module
from analysis.transformer import positional_encodings
from analysis.transformer.attention import attend, mask_future, project, softmax
from book import publish
from book.publish import Inputs, Numbers
from book.studies.patterns_and_messages import readings
from book.studies.patterns_and_messages.printed_lists import PrintedLists, run_printed_lists
from book.studies.shared.equality import draw, gaps, random_layer, relative_gap

OWN_MODEL = "gpt2-mini"
GPT2_SIZE = {"model": 768, "head": 12, "channel": 64}
TOO_SMALL_TO_DRAW = 1e-7


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
    belongs to the head, as shares; the ranks are those of W_P and W_M. ``nearest_to_pattern`` and
    ``nearest_to_query`` are the shares of rows of a whole model, on text, whose nearest key by angle stays the same.
    """

    G: Float[Tensor, "head channel other"]
    F: Float[Tensor, "head channel other"]
    moved: float
    unchanged: Mapping[str, float]
    pattern_ranks: np.ndarray
    message_ranks: np.ndarray
    nearest_to_pattern: float
    nearest_to_query: float


@dataclass(frozen=True)
class Example:
    """Scores of the head whose two parts are most nearly of one size, on one text: ``(query, key)``, in nats."""

    layer: int
    head: int
    varying: np.ndarray
    constant: np.ndarray


@dataclass(frozen=True)
class Readings(Numbers):
    """What ``pattern_readings`` says of each head of a whole model on text, ``(layer, head)``, beside its control."""

    model: str
    constant_range: str
    constant_control: str
    influence: str
    influence_control: str
    trained: Mapping[str, np.ndarray]
    control: Mapping[str, np.ndarray]
    example: Example


@dataclass(frozen=True)
class Spectra(Numbers):
    """GPT-2's heads: singular values ``(head of all layers, channel)`` and effective ranks, by matrix.

    ``varying`` and ``constant`` are the sizes of the two parts of each pattern, ``(layer, head)``, in nats.
    """

    smallest: str
    rank_control: str
    rank_pattern: str
    rank_lowest: str
    message_lowest: str
    message_head: str
    ratio_largest: str
    ratio_median: str
    ratio_above: str
    ratio_first: str
    linked: str
    grown: str
    narrow_rank: str
    narrow: str
    values: Mapping[str, np.ndarray]
    ranks: Mapping[str, np.ndarray]
    varying: np.ndarray
    constant: np.ndarray
    control_varying: np.ndarray


@dataclass(frozen=True)
class Rotary(Numbers):
    """Pattern matrices under rotary embeddings: ``distance`` (offset, head) to offset 0 as a share of the norm.

    ``remainder`` is what the best 1, 2, ... fixed matrices leave of the rotations; ``errors`` are differences of
    attention maps to those of LlamaAttention.
    """

    rotary_one: str
    rotary_best: str
    rotary_tenth: str
    offsets: np.ndarray
    distance: np.ndarray
    remainder: np.ndarray
    errors: Mapping[str, float]


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
    merged_counted: str
    merged_measured: str
    counts: Mapping[str, Count]
    ratios: Mapping[str, float]
    lengths: np.ndarray
    curves: Mapping[str, Mapping[str, np.ndarray]]
    timed_lengths: np.ndarray
    seconds: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows or judges.

    ``layer`` and ``x`` are the random layer of three heads of width 4 and its input; ``rewriting`` holds the errors of
    its patterns and messages, as shares. ``sources`` says of each record whether it was recomputed.
    """

    prefix = "patterns"

    inputs: Inputs
    layer: AttentionWeights
    x: Float[Tensor, "batch position model"]
    rewriting: Mapping[str, float]
    equality: Equality
    no_constant: str
    bias_free: BiasFree
    lists: PrintedLists
    gauge: Gauge
    readings: Readings
    spectra: Spectra
    rotary: Rotary
    costs: Costs
    sources: Mapping[str, str]


def measure(model: str = OWN_MODEL, texts: str | None = None, device: str = "auto") -> Measured:
    """Compute everything that the chapter shows; ``model`` is a whole GPT-2, which is run on text."""
    inputs = publish.choose_inputs(model, own=OWN_MODEL, texts=texts, device=device)
    layer, x = random_layer(3, 12, 4).to(inputs.device), draw(2, 9, 12, device=inputs.device)
    bias_free = replace(layer, **{name: 0 * getattr(layer, name) for name in ("b_Q", "b_K", "b_V", "b_O")})
    equality, equality_source = measure_equality(layer, x, inputs)
    heads, heads_source = measure_spectra(inputs)
    left_out = equality.gpt2["no constant pattern"]
    return Measured(
        inputs=inputs, layer=layer, x=x, rewriting=measure_rewriting(layer, x), equality=equality,
        no_constant=f"{left_out.min():.0%} to {left_out.max():.0%}", bias_free=measure_bias_free(bias_free, x),
        lists=run_printed_lists(bias_free, x), gauge=measure_gauge(layer, x, inputs), readings=measure_readings(inputs),
        spectra=heads, rotary=measure_rotary(layer, x), costs=measure_costs(layer, x, inputs),
        sources={"equality": equality_source, "spectra": heads_source})


def measure_rewriting(layer: AttentionWeights, x: Residual) -> dict[str, float]:
    """Hold patterns and messages to GPT2Attention, and the scores of the constant part to the semi-bias."""
    ours = qk_ov.attend_by_patterns(x, layer, causal=True).output
    constant_patterns = qk_ov.constant_pattern(layer)[:, None].expand(len(x), -1, -1, -1)
    constant = qk_ov.match(constant_patterns, x, layer.channel)[:, :, 0]
    return {"output": relative_gap(ours, attention_module("gpt2", layer)(x)[0]),
            "semi-bias": relative_gap(constant, semi_bias(x, layer))}


def measure_equality(layer: AttentionWeights, x: Residual, inputs: Inputs) -> tuple[Equality, str]:
    """Hold all forms to the modules; return them with where GPT-2's numbers come from."""
    record, source = publish.live_or_record("patterns-and-messages-equality-gpt2", inputs)
    random = {family: gaps(family, layer, x) for family in ("gpt2", "bert")}
    return Equality(random, {name: record.array(name) for name in random["gpt2"]}), source


def measure_bias_free(layer: AttentionWeights, x: Residual) -> BiasFree:
    """Take the document's steps one by one, on a layer without biases that sees all keys."""
    Q, K, V = (project(x, W, b) for W, b in
               ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V)))
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
    return BiasFree({name: relative_gap(*pair) for name, pair in pairs.items()} | {"cross-attention": cross},
                    one_input, moved[:, :, 1:].max().item())


def measure_cross_attention(layer: AttentionWeights) -> tuple[float, float]:
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
    forms = (qk_ov.deliver(softmax(qk_ov.match(sought, k, layer.channel)), qk_ov.messages(v, layer)).sum(1)
             for k, v in ((keys, values), (queries, queries)))
    error, one_input = (relative_gap(form, output) for form in forms)
    return error, one_input


def measure_gauge(layer: AttentionWeights, x: Residual, inputs: Inputs) -> Gauge:
    """Change the factors of the random layer, and those of a whole model as it reads text."""
    G, F = (draw(3, 4, 4, seed=seed, device=inputs.device) for seed in (5, 6))
    turned = qk_ov.change_gauge(layer, G, F)
    pairs = {
        "W_P": (qk_ov.qk_matrix(turned), qk_ov.qk_matrix(layer)),
        "W_M": (qk_ov.ov_matrix(turned), qk_ov.ov_matrix(layer)),
        "c": (qk_ov.constant_pattern(turned), qk_ov.constant_pattern(layer)),
        "output": (attend(x, turned).output, attend(x, layer).output),
    }
    to_pattern, to_query = same_nearest_keys(inputs)
    return Gauge(G, F, relative_gap(turned.W_Q, layer.W_Q), {name: relative_gap(*pair) for name, pair in pairs.items()},
                 torch.linalg.matrix_rank(qk_ov.qk_matrix(layer)).cpu().numpy(),
                 torch.linalg.matrix_rank(qk_ov.ov_matrix(layer)).cpu().numpy(), to_pattern, to_query)


def same_nearest_keys(inputs: Inputs) -> tuple[float, float]:
    """Return how often the key at the smallest angle stays the same when the factors change: to pattern, to query.

    Over all heads and all rows that see at least eight keys. The angle to a pattern is measured in the space of the
    stream, that to a query in the head's own.
    """
    same_for_patterns, same_for_queries = [], []
    for passage in readings.layers(checkpoints.find(inputs.model), source=inputs.texts, device=inputs.device):
        for weights, x in passage:
            G = draw(weights.heads, weights.channel, weights.channel, seed=5, device=inputs.device)
            before, after = nearest_keys(x, weights), nearest_keys(x, qk_ov.change_gauge(weights, G))
            same_for_patterns.append((before[0] == after[0]).flatten())
            same_for_queries.append((before[1] == after[1]).flatten())
    return (torch.cat(same_for_patterns).double().mean().item(), torch.cat(same_for_queries).double().mean().item())


def nearest_keys(x: Residual, weights: AttentionWeights) -> tuple[Tensor, Tensor]:
    """Return, ``(head, query)``, the key at the smallest angle to each pattern and to each query."""
    queries, keys = project(x, weights.W_Q, weights.b_Q), project(x, weights.W_K, weights.b_K)
    return nearest_rows(qk_ov.patterns(x, weights), x), nearest_rows(queries, keys)


def nearest_rows(rows: Tensor, keys: Tensor) -> Tensor:
    """Return which of the keys that it may see is at the smallest angle to each row; the first rows are left out."""
    unit_rows, unit_keys = (tensor / tensor.norm(dim=-1, keepdim=True) for tensor in (rows, keys))
    return mask_future(unit_rows @ unit_keys.mT).argmax(-1)[:, readings.SEEN:]


def measure_readings(inputs: Inputs) -> Readings:
    """Read the patterns of a whole model on text, and of its control."""
    checkpoint = checkpoints.find(inputs.model)
    which = {"source": inputs.texts, "device": inputs.device}
    trained, control = ({name: values.cpu().numpy() for name, values in
                         readings.readings(checkpoint, control_seed=seed, **which).items()}
                        for seed in (None, 0))
    constant, influence = trained["constant"], trained["influence"]
    layer, head = divmod(int(np.abs(constant - 0.5).argmin()), constant.shape[1])
    weights, rows = next(readings.layers(checkpoint, **which))[layer]
    varying, level = (part[head].cpu().numpy() for part in readings.parts(rows, weights))
    return Readings(
        model=Path(inputs.model).name, constant_range=f"{constant.min():.0%} to {constant.max():.0%}",
        constant_control=f"{control['constant'].max():.0%}",
        influence=f"{influence.min():.0%} to {influence.max():.0%}",
        influence_control=f"{control['influence'].mean():.0%}", trained=trained, control=control,
        example=Example(layer, head, varying, level))


def measure_spectra(inputs: Inputs) -> tuple[Spectra, str]:
    """Read the recorded singular values of GPT-2's heads and the sizes of the two parts of their patterns."""
    record, source = publish.live_or_record("patterns-and-messages-spectra-gpt2", inputs)
    values = {f"{prefix}{name}": record.array(f"{prefix}{name}").reshape(-1, 64)
              for name in ("pattern", "message", "augmented") for prefix in ("", "control_")}
    ranks = {name: singular_values.effective_rank(torch.from_numpy(array)).numpy() for name, array in values.items()}
    varying, constant = record.array("varying"), record.array("constant")
    return Spectra(**phrase_ranks(values, ranks), **phrase_ratios(constant / varying, ranks["pattern"]),
                   values=values, ranks=ranks, varying=varying, constant=constant,
                   control_varying=record.array("control_varying")), source


def phrase_ranks(values: Mapping[str, np.ndarray], ranks: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write down how many directions the patterns and messages of GPT-2's heads use."""
    smallest = min((values[name][:, -1] / values[name][:, 0]).min() for name in ("pattern", "message"))
    layer, head = divmod(int(ranks["message"].argmin()), 12)
    grown = values["augmented"][:, 0] / values["pattern"][:, 0] - 1
    return {"smallest": f"{smallest:.4f}", "rank_control": f"{np.median(ranks['control_pattern']):.1f}",
            "rank_pattern": f"{np.median(ranks['pattern']):.1f}", "rank_lowest": f"{ranks['pattern'].min():.1f}",
            "message_lowest": f"{ranks['message'].min():.1f}", "message_head": f"{head} of layer {layer}",
            "grown": f"{grown.max():.0%}"}


def phrase_ratios(ratio: Float[np.ndarray, "layer head"], ranks: Float[np.ndarray, " heads"]) -> dict[str, str]:
    """Write down how large the constant part is over the varying one, and whether such patterns are narrow."""
    narrow = np.argsort(ranks)[:7]
    return {"ratio_largest": f"{ratio.max():.1f}", "ratio_median": f"{np.median(ratio):.2f}",
            "ratio_above": str(int((ratio > 1).sum())), "ratio_first": str(int((ratio[1] > 1).sum())),
            "linked": f"{spearmanr(ratio.ravel(), ranks).statistic:+.2f}", "narrow_rank": f"{ranks[narrow].max():.1f}",
            "narrow": str(int((ratio.ravel()[narrow] > 1).sum()))}


def measure_rotary(layer: AttentionWeights, x: Residual, longest: int = 128) -> Rotary:
    """Compare the pattern matrices of offsets 0 to ``longest``, and hold the rotary form to LlamaAttention."""
    wide = random_layer(4, 128, 64).to(x.device)
    W_P = torch.stack([qk_ov.rotary_qk_matrix(wide, offset) for offset in range(longest + 1)])
    distance = ((W_P - W_P[0]).norm(dim=(2, 3)) / W_P[0].norm(dim=(1, 2))).cpu().numpy()
    remainder = qk_ov.rotary_remainder(longest + 1, 64).numpy()
    _, llama = attention_module("llama", layer)(x)
    maps = {"rotary form": positional_encodings.rotary_scores(x, layer),
            "no b_K": positional_encodings.rotary_scores(x, replace(layer, b_K=0 * layer.b_K)),
            "one W_P": qk_ov.match(qk_ov.patterns(x, layer), x, layer.channel)}
    errors = {name: (softmax(mask_future(scores)) - llama).abs().max().item() for name, scores in maps.items()}
    return Rotary(rotary_one=f"{distance[1].mean():.2f}", rotary_best=f"{remainder[0]:.2f}",
                  rotary_tenth=str(int((remainder >= 0.1).sum()) + 1), offsets=np.arange(longest + 1),
                  distance=distance, remainder=remainder[remainder > TOO_SMALL_TO_DRAW], errors=errors)


def measure_costs(layer: AttentionWeights, x: Residual, inputs: Inputs) -> Costs:
    """Count multiply-adds of the three forms, and read the recorded seconds."""
    record, _ = publish.live_or_record("patterns-and-messages-costs", inputs, recompute=False)
    seconds = dict(zip(cost.FORMS, record.array("seconds"), strict=True))
    lengths = np.unique(np.logspace(0, 5, 40).astype(int))
    curves = {title: {form: np.array([getattr(cost.cost(form, int(n), **GPT2_SIZE), quantity) for n in lengths])
                      for form in cost.FORMS}
              for title, quantity in (("multiply-adds", "sequence"), ("cache (numbers)", "cache"))}
    merged, factored = (cost.cost(form, 1, **GPT2_SIZE) for form in ("merged", "factored"))
    ratios = {"short": merged_ratio(1), "long": merged_ratio(10**6), "wide head": merged_ratio(64, head=1, channel=768),
              "parameters": merged.parameters / factored.parameters}
    return Costs(merged_short=f"{ratios['short']:.1f}", merged_long=f"{ratios['long']:.1f}",
                 merged_counted=f"{merged_ratio(1024):.1f}",
                 merged_measured=f"{seconds['merged'][-1] / seconds['factored'][-1]:.1f}",
                 counts={form: count(form, layer, x[:1]) for form in cost.FORMS}, ratios=ratios, lengths=lengths,
                 curves=curves, timed_lengths=record.array("lengths"), seconds=seconds)


def merged_ratio(n: int, model: int = 768, head: int = 12, channel: int = 64) -> float:
    """Return the multiply-adds of the merged form over those of the factored one, for a sequence of ``n`` positions."""
    merged, factored = (cost.cost(form, n, model, head, channel).sequence for form in ("merged", "factored"))
    return merged / factored


def count(form: str, layer: AttentionWeights, x: Residual) -> Count:
    """Count the multiply-adds of one form as torch runs it, and hold its output to the layer's."""
    run = cost.prepare(form, layer, causal=True)
    with FlopCounterMode(display=False) as counter:
        output = run(x)
    formula = cost.cost(form, x.shape[-2], layer.model, layer.heads, layer.channel).sequence
    return Count(counter.get_total_flops() // 2, formula, relative_gap(output, attend(x, layer, causal=True).output))
