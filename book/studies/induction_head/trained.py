"""Transformers trained on repeated random tokens: how the heads formed, their circuits, and the loss without them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.transformer import attention_only, induction, induction_scores
from analysis.transformer.attention_only import AttentionOnly
from book.lab.induction_probe import plain, split_loss
from book.lab.training import attention_only as training
from book.publish import Inputs, Numbers, live_or_record

RUNS = {
    "induction-head-training": ("seed-0", "seed-1", "seed-2", "one-layer"),
    "induction-head-more-seeds": ("seed-3", "seed-4"),
}
TRACES = ("step", "new", "repeated", "previous", "prefix", "copying")


@dataclass(frozen=True)
class Run:
    """The end of one training run.

    ``formed`` is the step at which prefix matching reached one half, -1 for never; ``new`` and ``repeated`` are losses
    in nats; ``prefix`` and ``copying`` are scores of the best head; ``looking_back`` is, for each head of layer 0, its
    attention to the previous token.
    """

    formed: int
    new: float
    repeated: float
    prefix: float
    copying: float
    looking_back: tuple[float, ...]


@dataclass(frozen=True)
class Training(Numbers):
    """The recorded training runs: five seeds of two layers, and one run of a single layer.

    Attributes
    ----------
    seeds, all_seeds
        How many seeds form an induction head, and how many there are.
    two_layer_low, two_layer_high
        The lowest and the highest final loss on repeated tokens of the seeds, in nats.
    one_layer_loss, two_layer_loss
        Final losses on repeated tokens, in nats: of the single layer, and of seed 0.
    source
        The sentence that says where the numbers come from.
    runs, traces
        The end of each run, and its course for the figure.
    """

    seeds: int
    all_seeds: int
    one_layer_loss: float
    two_layer_loss: float
    two_layer_low: float
    two_layer_high: float
    source: str
    runs: Mapping[str, Run]
    traces: Mapping[str, Mapping[str, np.ndarray]]


def read_training(inputs: Inputs) -> Training:
    """Read the recorded runs."""
    records = {record: live_or_record(record, inputs, recompute=False) for record in RUNS}
    source = " ".join(sentence for _, sentence in records.values())
    of_run = {name: records[record][0] for record, names in RUNS.items() for name in names}
    traces = {name: {key: record.array(f"{name}/{key}") for key in TRACES} for name, record in of_run.items()}
    runs = {
        name: Run(
            *(record[f"{name}/{key}"] for key in ("formed", "new", "repeated", "prefix")),
            traces[name]["copying"][-1, -1].max(),
            tuple(traces[name]["previous"][-1, 0]),
        )
        for name, record in of_run.items()
    }
    seeds = [run for name, run in runs.items() if name.startswith("seed")]
    return Training(
        sum(run.formed > 0 for run in seeds),
        len(seeds),
        runs["one-layer"].repeated,
        runs["seed-0"].repeated,
        min(run.repeated for run in seeds),
        max(run.repeated for run in seeds),
        source,
        runs,
        traces,
    )


@dataclass(frozen=True)
class Heads:
    """The heads of the bundled model and of its untrained control, on held-out sequences.

    Attributes
    ----------
    models, scores
        Weights and head scores by name, ``trained`` and ``control``, on the CPU.
    back, matcher
        The two heads of layer 0 that look back most, and the head of layer 1 with the best prefix matching.
    """

    models: Mapping[str, AttentionOnly]
    scores: Mapping[str, attention_only.HeadScores]
    back: tuple[int, int]
    matcher: int


@dataclass(frozen=True)
class Circuits:
    """The circuits of the bundled model in the bases of the hand-built matrices.

    Attributes
    ----------
    positions
        For each panel of the figure, the attention that positions alone would give.
    matches
        For each panel of the figure, scores of current token against stored token.
    one_back
        For two ranges of rows, the shares whose largest score is one step back: two trained heads, and the control.
    hidden
        Prefix matching of the matching head, with what layer 0 wrote hidden from nothing, the queries or the keys.
    """

    positions: Mapping[str, Float[np.ndarray, "query key"]]
    matches: Mapping[str, Float[np.ndarray, "token stored"]]
    one_back: Mapping[str, list[float]]
    hidden: Mapping[str, float]


@dataclass(frozen=True)
class Ablation:
    """Loss on repeated tokens, in nats: without some heads, by what is left out, and of a uniform guess."""

    losses: Mapping[str, float]
    chance: float


@dataclass(frozen=True)
class Trained(Numbers):
    """The bundled model, which is the run of seed 0, on held-out sequences.

    Attributes
    ----------
    parameters
        Their number, with commas between thousands.
    shortest, longest, length
        Lengths of the repeated blocks, and of a sequence, in tokens.
    early_rows, all_rows
        Rows in which the first copy of a block may lie, and all rows; the first row is left out of both.
    log_distinct
        Mean logarithm of the number of different tokens in a block, over repeated tokens.
    whole, least_without
        Loss on repeated tokens in nats: of the whole model, and the least without one head of layer 1.
    """

    parameters: str
    shortest: int
    longest: int
    length: int
    early_rows: int
    all_rows: int
    log_distinct: float
    whole: float
    least_without: float
    heads: Heads
    circuits: Circuits
    ablation: Ablation


def measure_trained(device: torch.device) -> Trained:
    """Measure the bundled model and its control on held-out sequences."""
    model, card = training.load()
    control, config = training.Transformer(model.config, card["seed"]), model.config
    models = {"trained": plain(model), "control": plain(control)}
    sequences, repeated = (batch.to(device) for batch in training.held_out(config))
    model, control = model.to(device), control.to(device)
    heads = find_heads(models, {"trained": plain(model), "control": plain(control)}, sequences)
    losses = ablate_heads(model, sequences, repeated, heads)
    return Trained(
        parameters=f"{card['parameters']:,}",
        shortest=config.shortest,
        longest=config.longest,
        length=config.length,
        early_rows=config.longest - 1,
        all_rows=config.length - 1,
        log_distinct=log_distinct(sequences, repeated),
        whole=split_loss(model, sequences, repeated)[1],
        least_without=min(losses[f"without 1.{head}"] for head in range(config.heads)),
        heads=heads,
        circuits=measure_circuits(heads, config, hide_layer_0(plain(model), sequences, heads.matcher)),
        ablation=Ablation(losses, math.log(config.vocab)),
    )


def find_heads(
    models: Mapping[str, AttentionOnly],
    on_device: Mapping[str, AttentionOnly],
    sequences: Int[Tensor, "batch position"],
) -> Heads:
    """Score all heads, and find those that look back and the one that matches."""
    scores = {}
    for name, model in on_device.items():
        measured = attention_only.score_heads(model, sequences)
        scores[name] = attention_only.HeadScores(measured.previous.cpu(), measured.prefix.cpu(), measured.copying.cpu())
    first, second = sorted(scores["trained"].previous[0].argsort(descending=True)[:2].tolist())
    return Heads(models, scores, (first, second), int(scores["trained"].prefix[1].argmax()))


def log_distinct(sequences: Int[Tensor, "batch position"], repeated: Bool[Tensor, "batch next"]) -> float:
    """Return the mean logarithm of the number of different tokens in the block, over all repeated tokens."""
    repeats = repeated.sum(1).tolist()
    periods = [sequences.shape[1] - count for count in repeats]
    logarithms = [math.log(len(set(row[:period]))) for row, period in zip(sequences.tolist(), periods, strict=True)]
    return sum(each * count for each, count in zip(logarithms, repeats, strict=True)) / sum(repeats)


def measure_circuits(heads: Heads, config: training.Config, hidden: Mapping[str, float]) -> Circuits:
    """Form the circuits of the trained model and its control, beside those of the hand-built head."""
    built, (first, second), matcher = induction.build(config.vocab, config.length), heads.back, heads.matcher
    half = slice(config.vocab, config.vocab + config.length)
    position = {name: attention_only.positional_qk_circuit(model) for name, model in heads.models.items()}
    match = {
        name: attention_only.k_composition(model, heads.scores[name].previous[0])
        for name, model in heads.models.items()
    }
    looking = [position["trained"][first], position["trained"][second], position["control"][first]]
    longest = config.longest
    return Circuits(
        positions={
            "$A_1$ by hand": causal_softmax(built.first.A[half, half]),
            **{
                name: causal_softmax(scores)
                for name, scores in zip((f"head 0.{first}", f"head 0.{second}", "untrained"), looking, strict=True)
            },
        },
        matches={
            "$A_2$ by hand": built.second.A[: config.vocab, config.vocab : 2 * config.vocab].numpy(),
            f"head 1.{matcher}": match["trained"][matcher].numpy(),
            "all four heads": match["trained"].sum(0).numpy(),
            "untrained": match["control"][matcher].numpy(),
        },
        one_back={
            f"rows 1 to {longest - 1}": [one_back_early(scores, longest) for scores in looking],
            f"rows from {longest}": [one_back_late(scores, longest) for scores in looking],
        },
        hidden=hidden,
    )


def causal_softmax(scores: Float[Tensor, "query key"]) -> Float[np.ndarray, "query key"]:
    """Return the attention that these scores alone would give."""
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1).numpy()


def one_back_early(scores: Float[Tensor, "query key"], longest: int) -> float:
    """Return the share of the rows before position ``longest`` whose largest score is one step back."""
    return attention_only.top_1_accuracy(scores[:longest, :longest], 1, causal=True).item()


def one_back_late(scores: Float[Tensor, "query key"], longest: int) -> float:
    """Return the share of the rows from position ``longest`` on whose largest score is one step back."""
    rows = range(longest, len(scores))
    return sum(int(scores[row, : row + 1].argmax() == row - 1) for row in rows) / len(rows)


def hide_layer_0(model: AttentionOnly, sequences: Int[Tensor, "batch position"], matcher: int) -> dict[str, float]:
    """Return prefix matching of the matching head, with layer 0 hidden from nothing, its queries or its keys."""
    run = attention_only.run(model, sequences)
    readings = {"nothing": (1, 1), "queries": (0, 1), "keys": (1, 0)}
    attention = {
        part: attention_only.attention_reading(model, run, queries=queries, keys=keys)
        for part, (queries, keys) in readings.items()
    }
    return {
        part: induction_scores.prefix_matching(maps, sequences).mean(0)[matcher].item()
        for part, maps in attention.items()
    }


def ablate_heads(
    model: training.Transformer,
    sequences: Int[Tensor, "batch position"],
    repeated: Bool[Tensor, "batch next"],
    heads: Heads,
) -> dict[str, float]:
    """Return the loss on repeated tokens with some heads set to zero, by what is left out."""
    config, (first, second), matcher = model.config, heads.back, heads.matcher
    every = range(config.heads)
    left_out = {f"without {layer}.{head}": [(layer, head)] for layer in (0, 1) for head in every}
    left_out |= {
        f"without 0.{first} and 0.{second}": [(0, first), (0, second)],
        "without the other two of layer 0": [(0, head) for head in every if head not in heads.back],
        "without layer 0": [(0, head) for head in every],
        f"layer 1: only 1.{matcher}": [(1, head) for head in every if head != matcher],
        "without layer 1": [(1, head) for head in every],
    }
    losses = {}
    for name, places in left_out.items():
        factors = torch.ones(config.layers, config.heads, device=sequences.device)
        for layer, head in places:
            factors[layer, head] = 0
        losses[name] = split_loss(model, sequences, repeated, factors)[1]
    return losses
