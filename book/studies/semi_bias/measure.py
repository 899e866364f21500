"""What the chapter on the semi-bias measures: GPT-2 from its record, gpt2-mini and its untrained control live."""

import re
from dataclasses import dataclass
from functools import partial
from math import comb
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from pybtex.database import parse_file
from torch import Tensor, nn

from analysis.core.weights import AttentionWeights
from analysis.data import texts
from analysis.decomposition.score_terms import ScoreTerms, score_terms, semi_bias, six_terms
from analysis.maps.locality import PositionOnly, position_only, position_scores, position_share
from analysis.models import checkpoints, parameters, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from analysis.surveys.records import Record, Result
from analysis.training import gpt2_mini
from analysis.transformer.attention import attend, compute_scores, project
from analysis.transformer.layernorm import layer_norm, sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from book.publish import Inputs, Numbers, choose_inputs, ledger, live_or_record
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import FirstLayer
from book.studies.semi_bias.gpt2 import measure as measure_gpt2
from book.studies.semi_bias.gpt2 import near

SENTENCE = "If the name is not found in the module, the value of the expression is returned."
EXACT = ("attention", "output", "four_terms", "two_terms", "six_terms", "value_folded", "no_key_bias", "bias_outside")
WINDOWS = 32  # of held-out text that gpt2-mini reads
NEAREST = (3, 16)  # reaches in gpt2-mini, whose context is an eighth of GPT-2's
RANDOM_BIASES = 300
TOKEN_POSITION = 64  # where the tokens' semi-bias is computed with the LayerNorm
BIBLIOGRAPHY = Path(__file__).parents[2] / "references.bib"

Scores = Float[np.ndarray, "head position"]
PerHead = Float[np.ndarray, " head"]


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
    content_asymmetry: float  # norm of content less its transpose, in norms of content
    query_bias_across_queries: float  # how much what b_Q adds varies from query to query, as above


@dataclass(frozen=True)
class Sentence:
    """One sentence in gpt2-mini: its tokens, and the scores of the head with the strongest semi-bias, part by part."""

    ids: Int[Tensor, " token"]
    tokens: tuple[str, ...]
    parts: dict[str, Float[np.ndarray, "_query _key"]]
    identities: Identities


@dataclass(frozen=True)
class Citation:
    """The work that the document cites: its arXiv identifier, and the year that the document prints."""

    identifier: str
    printed_year: int

    @property
    def dated(self) -> tuple[int, int]:
        """The year and the month of the identifier."""
        return arxiv_month(self.identifier)


@dataclass(frozen=True)
class PositionTable(Numbers):
    """GPT-2's table of positions: every 8th row, its principal components without the last row, the norms of rows."""

    every_8th: Float[np.ndarray, "row model"]
    components: Float[np.ndarray, "position axis"]
    shares: Float[np.ndarray, " axis"]
    places: int
    width: int
    pc3: float  # share of the variance along the first three axes
    pc_ramp: float  # rank correlation of the third component with the position
    norm_last: float
    norm_median: float

    @property
    def pale(self) -> float:
        """The share of the entries that lie within a tenth of the largest."""
        sizes = np.abs(self.every_8th)
        return float((sizes < sizes.max() / 10).mean())


class Marks(NamedTuple):
    """Positions at which curves are read off: two keys ``apart``, and an early, a middle and a late position."""

    apart: int
    early: int
    half: int
    late: int


@dataclass(frozen=True)
class Tilt(Numbers):
    """The semi-bias of GPT-2's positions in nats: raw, with the LayerNorm folded in, and divided by sigma(p).

    ``rising_heads`` have a positive rank correlation of the last with the position; ``turns`` are the positions of
    their lowest values.
    """

    raw: Scores
    folded: Scores
    over_sigma: Scores
    marks: Marks
    rising_heads: tuple[int, ...]
    falling_heads: tuple[int, ...]
    turns: Int[np.ndarray, " rising_head"]
    rising: int  # number of heads, of all heads
    heads: int
    odd: int  # the head that falls
    weak: int  # the rising head that changes the weights least
    rho_low: float  # rank correlations with the position: of the rising heads, raw and over sigma, and of the odd head
    rho_sigma_low: float
    rho_odd: float
    odd_first: float  # nats over sigma, at the first position and 50 positions later
    odd_50: float
    ratio_50: float  # by how much a key 50 positions later has more weight: median head, least and most rising head
    ratio_50_low: float
    ratio_50_high: float
    doubling: float  # positions in which the weight doubles: median rising head, and the steepest
    doubling_3: float
    steepest: int
    far: float  # by how much the late mark has more weight than the early one, in the median rising head
    turn_low: int  # lowest points of the rising heads, with no tokens and with tokens twice as wide as positions
    turn_high: int
    turn_wide_low: int
    turn_wide_high: int

    @property
    def falls_until(self) -> int:
        """The last position at which a rising head, apart from the weak one, still falls."""
        return int(max(turn for turn, head in zip(self.turns, self.rising_heads, strict=True) if head != self.weak))


@dataclass(frozen=True)
class Losses(Numbers):
    """What the query bias changes: gpt2-mini's loss in nats a token, and the output of GPT-2's first layer.

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
    query_bias_norms: tuple[PerHead, PerHead]
    query_norms: tuple[PerHead, PerHead]
    control: str  # the control's largest semi-bias
    ramp: float  # share of the squared length of the key direction along the table's third axis, median head
    null_low: float  # median size of the correlations that random biases give, by head
    null_high: float
    null_share_low: float  # share of random biases with a correlation as large as the trained one
    null_share_high: float
    sign_p: float
    spread_low: float  # spread of the trained semi-bias over the median spread of random ones
    spread_high: float
    size_low: float  # norm of b_Q over the median norm of x W_Q
    size_high: float


@dataclass(frozen=True)
class Locality(Numbers):
    """Attention of GPT-2's positions alone: the mass on the nearest keys, and where the largest weight lies.

    ``mass`` is for three widths of a token, two reaches, the parts T^p, T^pp and their sum, and the heads;
    ``local_heads`` put more than a third of the weight of the sum on the nearest three keys.
    """

    mass: Float[np.ndarray, "width reach part head"]
    uniform: Float[np.ndarray, " reach"]
    reaches: tuple[int, int]
    peaks: Int[np.ndarray, "part head query"]
    local_heads: tuple[int, ...]
    alias: int  # heads whose largest weight of T^pp lies far back, and how far in their median
    period: float
    mass_p: float  # on the nearest 50 keys, median head: T^p, equal weights, and the sum
    mass_u: float
    mass_sum: float
    mass_w0: float  # that of the sum for tokens of no width, and for tokens twice as wide as positions
    mass_w2: float
    near_p: float  # on the nearest 3 keys, median head
    near_sum: float
    near_heads: str


@dataclass(frozen=True)
class MiniLocality(Numbers):
    """The same for gpt2-mini with its exact sigma, and for its control; masses are those on the nearest 16 keys."""

    mass: Float[np.ndarray, "part head"]
    control_mass: Float[np.ndarray, "part head"]
    approx: float  # largest relative error of sigma for tokens without a preferred direction
    mini_rising: int
    mini_heads: int
    mini_rho: float  # smallest rank correlation of T^p with the position
    mini_sum: float
    mini_p: float
    mini_u: float  # equal weights
    control_gap: float  # largest distance of the control from equal weights


@dataclass(frozen=True)
class Deeper(Numbers):
    """Raw positions in every layer of GPT-2, and what of the position is left in the states of gpt2-mini."""

    rho: Float[np.ndarray, "layer head"]
    spread: Float[np.ndarray, "layer head"]
    deep_0: float  # median spread in layers 0 and 6, in nats
    deep_6: float
    share_0: float  # share of the variance of what layers 0 and 1 read that the position explains
    share_1: float
    cos_0: float  # median cosine of the mean state at a position with the position's vector
    cos_1: float


class TokenScatter(NamedTuple):
    """One dot per token: norm, semi-bias in every head in nats, number of occurrences; and the heads' titles."""

    norm: Float[np.ndarray, " token"]
    scores: Float[np.ndarray, "head token"]
    counts: Float[np.ndarray, " token"]
    titles: list[str]


@dataclass(frozen=True)
class Tokens(Numbers):
    """Rank correlations of token norm and token semi-bias in gpt2-mini, by head.

    ``correlations`` holds value, low and high end of the 95 % interval; ``null_range`` is that of nine in ten random
    query biases; ``frequency`` is per million tokens of the training text. GPT-2's own tokens are drawn where its
    token table is at hand.
    """

    frequency: Float[Tensor, " token"]
    correlations: Float[np.ndarray, "3 head"]
    at_equal_frequency: PerHead
    null_range: Float[np.ndarray, "2 head"]
    gpt2: TokenScatter | None
    tok_positive: int  # heads whose whole interval is above 0
    tok_low: float
    tok_high: float
    tok_median: float
    tok_partial_median: float
    tok_freq: float  # rank correlation of norm and frequency
    tok_outside: int  # heads outside the range of random biases
    tok_never: int  # tokens that never occur
    tok_exact_low: float  # with the LayerNorm, at position 64
    tok_exact_high: float
    tok_exact_positive: int


@dataclass(frozen=True)
class Emergence(Numbers):
    """gpt2-mini's training: held-out loss, and rank correlation and spread of the first layer's raw semi-bias."""

    step: Int[np.ndarray, " time"]
    held_out: Float[np.ndarray, " time"]
    rho: Float[np.ndarray, "time head"]
    spread: Float[np.ndarray, "time head"]
    em_step: int  # from here on, half of the heads or more have a rank correlation above one half
    em_loss: float
    em_half: int  # where the median spread reaches half of its final size
    em_half_loss: float
    em_last: int
    em_last_loss: float
    em_first_loss: float


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows. Scores are in nats; heads and layers are counted from 0.

    ``errors`` are those of ``book.studies.semi_bias.first_layer.equality``: model to name to error.
    """

    prefix: ClassVar[str] = "sb"

    inputs: Inputs
    sources: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]
    mini: FirstLayer
    errors: dict[str, dict[str, float]]
    sentence: Sentence
    citation: Citation
    table: PositionTable
    tilt: Tilt
    losses: Losses
    chance: Chance
    locality: Locality
    mini_locality: MiniLocality
    deeper: Deeper
    tokens: Tokens
    emergence: Emergence

    @property
    def exact_errors(self) -> dict[str, dict[str, float]]:
        """The errors of what should be exact."""
        return {model: {name: errors[name] for name in EXACT} for model, errors in self.errors.items()}

    def largest_error(self, name: str) -> float:
        """Return the larger of the two models' errors of that name."""
        return max(errors[name] for errors in self.errors.values())

    def smallest_error(self, name: str) -> float:
        """Return the smaller of the two models' errors of that name."""
        return min(errors[name] for errors in self.errors.values())


def measure(model: str = "gpt2", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure everything that the chapter shows.

    Parameters
    ----------
    model
        Any GPT-2, by name or folder; its attention, LayerNorm and position parameters are enough.
    texts
        A text file, or a folder of them, that gpt2-mini reads in place of the book's held-out passages.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    """
    inputs = choose_inputs(model, own="gpt2", texts=texts, device=device, whole=False)
    shown, mini_checkpoint = checkpoints.find(model), checkpoints.find("gpt2-mini")
    gpt2, source = live_or_record("semi-bias-gpt2", inputs,
                                  elsewhere=partial(measure_gpt2, shown, inputs.device))
    mini = first_layer.read(mini_checkpoint, device=inputs.device)
    control = first_layer.control(mini_checkpoint, device=inputs.device)
    language_model = pretrained.load(mini_checkpoint, task="lm", dtype=torch.float64, device=inputs.device)
    windows = held_out_windows(mini_checkpoint, inputs)
    sentence = measure_sentence(mini_checkpoint, mini)
    tilt = measure_tilt(gpt2)
    return Measured(
        inputs, (source,), (mini_checkpoint, shown), mini, measure_errors(gpt2, mini, sentence.ids), sentence,
        find_citation(), measure_table(gpt2), tilt, measure_losses(gpt2, language_model, windows, inputs),
        measure_chance(gpt2, tilt, mini, control, windows), measure_locality(gpt2, tilt, inputs),
        measure_mini_locality(mini, control), measure_deeper(gpt2, mini, language_model, windows),
        measure_tokens(mini, shown, inputs), measure_emergence(mini_checkpoint))


def held_out_windows(checkpoint: Checkpoint, inputs: Inputs) -> Int[Tensor, "window position"]:
    """Cut the held-out passages into windows of gpt2-mini's tokens."""
    text = "\n\n".join(texts.passages(source=inputs.texts))
    return gpt2_mini.windows(gpt2_mini.encode(pretrained.tokenizer(checkpoint), text), WINDOWS).to(inputs.device)


def measure_errors(gpt2: Record | Result, mini: FirstLayer, ids: Int[Tensor, " token"]) -> dict[str, dict[str, float]]:
    """Hold the rewriting to the transformers module: GPT-2 by its record, gpt2-mini on the sentence."""
    embedded, p = mini.tokens[ids], mini.positions[:len(ids)]
    errors = first_layer.equality(embedded, p, mini.weights, mini.ln)
    errors["map"] = first_layer.map_error(mini.positions, mini.weights)
    return {"gpt2-mini": errors, "GPT-2": {name: gpt2[f"error_{name}"] for name in errors}}


def measure_sentence(checkpoint: Checkpoint, mini: FirstLayer) -> Sentence:
    """Take the scores of one sentence apart, and hold the document's equations to them."""
    tokenizer = pretrained.tokenizer(checkpoint)
    ids = torch.tensor(tokenizer.encode(SENTENCE), device=mini.positions.device)
    embedded, p = mini.tokens[ids], mini.positions[:len(ids)]
    x = layer_norm(embedded + p, mini.ln)
    parts, six = score_terms(x, mini.weights), six_terms(embedded, p, mini.weights, mini.ln)
    total = compute_scores(x, mini.weights)
    head = int(parts.semi_bias.std(1).argmax())
    shown = {"scores": total[head], "content": parts.content[head], "semi-bias": parts.semi_bias[head][None],
             "row constants": (parts.query_constant[head] + parts.constant[head])[:, None],
             "semi-bias of positions": six.p[head][None], "semi-bias of tokens": six.e[head][None]}
    return Sentence(ids, tuple(tokenizer.decode([i]).strip() for i in ids.tolist()),
                    {name: part.cpu().numpy() for name, part in shown.items()},
                    measure_identities(x, parts, checkpoint, mini.weights))


def measure_identities(x: Float[Tensor, "position model"], parts: ScoreTerms, checkpoint: Checkpoint,
                       layer: AttentionWeights) -> Identities:
    """Compute both sides of the document's equations, its matrices cut from the parameters as they were stored."""
    stored = [tensor.to(x.device) for tensor in parameters.read(
        checkpoint, "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight", dtype=torch.float64)]
    W_QKV, b_QKV, W_O = stored
    ours, scores = attend(x, layer, causal=True), compute_scores(x, layer)
    heads = torch.einsum("hqk,hkc->qhc", ours.attention, project(x, layer.W_V, layer.b_V)).flatten(1)
    concatenation = heads @ W_O + layer.b_O
    row_constants = scores - parts.content - parts.semi_bias[:, None]
    column_constants = scores - parts.content - parts.query_constant[..., None] - parts.constant[:, None, None]
    return Identities(
        output_rows=float((W_O.unflatten(0, (layer.heads, layer.channel)) - layer.W_O).abs().max()),
        input_columns=_distance_of_columns(W_QKV, b_QKV, layer),
        concatenation=_relative_error(concatenation, ours.output),
        sum_over_heads=_relative_error(ours.updates.sum(0) + layer.b_O, concatenation),
        later_keys=float(ours.attention.triu(1).abs().max()),
        row_sums=float((ours.attention.sum(-1) - 1).abs().max()),
        key_bias_along_rows=float(row_constants.std(-1).max() / scores.std()),
        shifted_scores=float(((scores + 3).softmax(-1) - scores.softmax(-1)).abs().max()),
        content_asymmetry=float((parts.content - parts.content.mT).norm() / parts.content.norm()),
        query_bias_across_queries=float(column_constants.std(1).max() / scores.std()))


def _relative_error(result: Tensor, expected: Tensor) -> float:
    return float((result - expected).abs().max() / expected.abs().max())


def _distance_of_columns(W_QKV: Tensor, b_QKV: Tensor, layer: AttentionWeights) -> float:
    """Cut the columns into queries, keys and values, each into heads; return the largest distance from the layer's."""
    by_head = (3, layer.heads, layer.channel)
    W = torch.stack([layer.W_Q, layer.W_K, layer.W_V]).movedim(2, 0)
    b = torch.stack([layer.b_Q, layer.b_K, layer.b_V])
    return float(max((W_QKV.unflatten(1, by_head) - W).abs().max(), (b_QKV.unflatten(0, by_head) - b).abs().max()))


def arxiv_month(identifier: str) -> tuple[int, int]:
    """Return the year and the month in which arXiv gave a work its identifier, ``YYMM.NNNNN`` since April 2007.

    Examples
    --------
    >>> arxiv_month("0704.0001"), arxiv_month("2406.19384")
    ((2007, 4), (2024, 6))
    """
    if not re.fullmatch(r"\d\d(0[1-9]|1[0-2])\.\d{4,5}", identifier):
        raise ValueError(f"identifier must be of the form YYMM.NNNNN, got {identifier!r}")
    return 2000 + int(identifier[:2]), int(identifier[2:4])


def find_citation() -> Citation:
    """Look up the identifier of the work that the document cites, and the year that the document prints."""
    printed = next(claim.claim for claim in ledger.claims() if claim.id == "K-26")
    return Citation(parse_file(str(BIBLIOGRAPHY)).entries["lad2024stages"].fields["eprint"],
                    int(re.search(r"\d{4}", printed)[0]))


def measure_table(gpt2: Record | Result) -> PositionTable:
    """Describe GPT-2's table of positions."""
    steps, shares, norms = gpt2.array("table_steps"), gpt2.array("pc_share"), gpt2.array("norm_p")
    return PositionTable(
        every_8th=steps / 127.0 * float(gpt2.array("table_limit")[0]), components=gpt2.array("pc_scores"),
        shares=shares, places=len(norms), width=steps.shape[1], pc3=float(shares[:3].sum()),
        pc_ramp=float(gpt2.array("pc_recency")[2]), norm_last=float(norms[-1]), norm_median=float(np.median(norms)))


def measure_tilt(gpt2: Record | Result) -> Tilt:
    """Say how the semi-bias of GPT-2's positions rises along the sequence, and where it does not."""
    raw, folded, over_sigma = (torch.tensor(gpt2.array(f"semi_{name}")) for name in ("raw", "folded", "sigma"))
    sigma_p = torch.tensor(gpt2.array("sigma_p"))
    rho_raw, rho, heads, places = recency(raw), recency(over_sigma), *raw.shape
    marks = Marks(50, 100, 500, 1000) if places > 1000 else Marks(places // 20, places // 10, places // 2, places - 2)
    rising = [h for h in range(heads) if rho[h] > 0] or list(range(heads))
    falling = [h for h in range(heads) if rho[h] < 0] or [int(rho.argmin())]
    # Tokens as wide as a position, in an unknown direction: the width in the middle of the record's three.
    typical, wide = (folded / (sigma_p**2 + (times * sigma_p.median())**2).sqrt() for times in (1, 2))
    ratio = (typical[:, marks.apart:-1] - typical[:, :-1 - marks.apart]).exp().median(1).values
    slope = (typical[:, marks.late] - typical[:, marks.early]) / (marks.late - marks.early)
    turns, wide_turns = over_sigma[rising, :-1].argmin(1), wide[rising, :-1].argmin(1)
    odd, steepest = falling[0], int(slope.argmax())
    return Tilt(
        raw.numpy(), folded.numpy(), over_sigma.numpy(), marks, tuple(rising), tuple(falling), turns.numpy(),
        rising=int((rho > 0).sum()), heads=heads, odd=odd, weak=rising[int(ratio[rising].argmin())],
        rho_low=float(rho_raw[rising].min()), rho_sigma_low=float(rho[rising].min()), rho_odd=float(rho_raw[odd]),
        odd_first=float(over_sigma[odd, 0]), odd_50=float(over_sigma[odd, marks.apart]),
        ratio_50=float(ratio.median()), ratio_50_low=float(ratio[rising].min()),
        ratio_50_high=float(ratio[rising].max()),
        doubling=float((np.log(2) / slope[rising]).median()), doubling_3=float(np.log(2) / slope[steepest]),
        steepest=steepest, far=round(float(((marks.late - marks.early) * slope[rising]).exp().median()), -2),
        turn_low=int(turns.min()), turn_high=int(turns.max()),
        turn_wide_low=int(wide_turns.min()), turn_wide_high=int(wide_turns.max()))


def measure_losses(gpt2: Record | Result, language_model: nn.Module, windows: Int[Tensor, "window position"],
                   inputs: Inputs) -> Losses:
    """Take biases away from gpt2-mini, and compare the times of the two orders of multiplication."""
    loss = first_layer.loss_without(language_model, windows)
    if abs(first_layer.loss_without(language_model, windows, "b_K", (0, 1)) - loss) >= 1e-10:
        raise AssertionError("the loss without b_K differs, while the page says that it stays the same to 1e-10")
    times, _ = live_or_record("peers-packages", inputs, recompute=False)
    return Losses(loss, first_layer.loss_without(language_model, windows, "b_Q", (0,)) - loss,
                  gpt2["error_no_query_bias"],
                  times["semi_bias/keys_first/seconds"] / times["semi_bias/ours/seconds"])


def measure_chance(gpt2: Record | Result, tilt: Tilt, mini: FirstLayer, control: FirstLayer,
                   windows: Int[Tensor, "window position"]) -> Chance:
    """Set GPT-2's semi-bias beside random query biases, and its query biases beside the queries they are added to."""
    quantiles, share, spread = (gpt2.array(name) for name in ("null_quantiles", "null_share", "spread_ratio"))
    sizes = gpt2.array("size_b") / gpt2.array("size_xW")
    x = layer_norm(mini.tokens[windows[:, :-1]] + mini.positions, mini.ln)
    queries = project(x, mini.weights.W_Q, 0 * mini.weights.b_Q)
    mini_sizes = queries.norm(dim=-1).transpose(0, 1).flatten(1).median(1).values
    return Chance(
        gpt2.array("rho"), quantiles,
        query_bias_norms=(gpt2.array("size_b"), mini.weights.b_Q.norm(dim=1).cpu().numpy()),
        query_norms=(gpt2.array("size_xW"), mini_sizes.cpu().numpy()),
        control=f"{float(semi_bias(control.positions, control.weights).abs().max()):.0f}",
        ramp=float(np.median(gpt2.array("direction_share")[:, 2])),
        null_low=float(quantiles[1].min()), null_high=float(quantiles[1].max()),
        null_share_low=float(share.min()), null_share_high=float(share.max()),
        sign_p=sign_probability(tilt.rising, tilt.heads),
        spread_low=float(spread.min()), spread_high=float(spread.max()),
        size_low=float(sizes.min()), size_high=float(sizes.max()))


def sign_probability(count: int, heads: int) -> float:
    """Return the probability that so many of independent heads, or more, have the same sign by chance.

    Examples
    --------
    >>> sign_probability(3, 3)
    0.25
    """
    return min(1.0, 2 * sum(comb(heads, i) for i in range(count, heads + 1)) / 2**heads)


def measure_locality(gpt2: Record | Result, tilt: Tilt, inputs: Inputs) -> Locality:
    """Say how near the attention of GPT-2's positions alone lies."""
    mass, uniform, peaks = gpt2.array("mass"), gpt2.array("uniform"), gpt2.array("peak")
    median_distance = np.median(peaks[:, :, tilt.marks.half:-1], axis=2)
    steady = [head for head in range(tilt.heads) if head not in (tilt.odd, tilt.weak)]
    if median_distance[2][steady].max() > 0 and not inputs.departs:
        raise AssertionError("a head's largest weight is not on the query itself, while the page says that it is")
    aliases = median_distance[1][median_distance[1] > tilt.marks.early]
    near_sum = mass[1, 0, 2]
    local = tuple(head for head in range(tilt.heads) if near_sum[head] > 1 / 3)
    return Locality(
        mass, uniform, (3, near(tilt.raw.shape[1])), peaks, local,
        alias=len(aliases), period=float(np.median(aliases)) if len(aliases) else 0.0,
        mass_p=float(np.median(mass[1, 1, 0])), mass_u=float(uniform[1]), mass_sum=float(np.median(mass[1, 1, 2])),
        mass_w0=float(np.median(mass[0, 1, 2])), mass_w2=float(np.median(mass[2, 1, 2])),
        near_p=float(np.median(mass[1, 0, 0])), near_sum=float(np.median(near_sum)), near_heads=name_heads(local))


def name_heads(heads: tuple[int, ...]) -> str:
    """Name heads in a sentence.

    Examples
    --------
    >>> name_heads((3, 4, 7)), name_heads((5,)), name_heads(())
    ('3, 4 and 7', '5', 'no head')
    """
    *others, last = map(str, heads or ("no head",))
    return f"{', '.join(others)} and {last}" if others else last


def measure_mini_locality(mini: FirstLayer, control: FirstLayer) -> MiniLocality:
    """Say the same of gpt2-mini and of its control, with sigma averaged over the vocabulary."""
    own, trained = _attention_of_positions(mini)
    _, untrained = _attention_of_positions(control)
    mean_width = (mini.sigma_p**2 + sigma(mini.tokens, 0.0).square().mean()).sqrt()
    inverse = inverse_sigma(mini.tokens, mini.positions, mini.ln.eps).mean
    rho, mass = recency(own), trained.mass[1]
    return MiniLocality(
        mass.cpu().numpy(), untrained.mass[1].cpu().numpy(), approx=float((mean_width * inverse - 1).abs().max()),
        mini_rising=int((rho > 0).sum()), mini_heads=len(rho), mini_rho=float(rho.min()),
        mini_sum=float(mass[2].median()), mini_p=float(mass[0].median()), mini_u=float(trained.uniform[1]),
        control_gap=float((untrained.mass[1] - untrained.uniform[1]).abs().max()))


def _attention_of_positions(layer: FirstLayer) -> tuple[Float[Tensor, "head position"], PositionOnly]:
    """Return T^p and how near the attention of positions alone lies."""
    width = 1 / inverse_sigma(layer.tokens, layer.positions, layer.ln.eps).mean
    own, both = position_scores(layer.positions, width, layer.folded)
    return own, position_only(own, both, NEAREST, first=NEAREST[1])


def measure_deeper(gpt2: Record | Result, mini: FirstLayer, language_model: nn.Module,
                   windows: Int[Tensor, "window position"]) -> Deeper:
    """Feed raw positions to every layer of GPT-2; measure what is left of the position in gpt2-mini's states."""
    spread = gpt2.array("deep_std")
    medians = np.median(spread, axis=1)
    states = language_model.transformer(windows[:, :-1], output_hidden_states=True).hidden_states[:2]
    shares = [position_share(state) for state in states]
    cosines = [_cosine_with_positions(state, mini.positions) for state in states]
    return Deeper(gpt2.array("deep_rho"), spread, float(medians[0]), float(medians[min(6, len(medians) - 1)]),
                  *shares, *cosines)


def _cosine_with_positions(state: Float[Tensor, "window position model"], p: Float[Tensor, "position model"]) -> float:
    """Return the median cosine of the mean state at a position with the position's vector, both less their mean."""
    mean_state = state.mean(0) - state.mean((0, 1))
    return float(torch.nn.functional.cosine_similarity(mean_state, p - p.mean(0), dim=1).median())


def measure_tokens(mini: FirstLayer, shown: Checkpoint, inputs: Inputs) -> Tokens:
    """Correlate the norms of gpt2-mini's tokens with their semi-bias; draw GPT-2's tokens where they are at hand."""
    counted, _ = live_or_record("semi-bias-token-counts", inputs, recompute=False)
    frequency = torch.tensor(counted.array("per_million")).double().to(inputs.device)
    norm, scores = mini.tokens.norm(dim=1), semi_bias(mini.tokens, mini.weights)
    by_head = [rank_correlation(norm, head) for head in scores]
    correlations = np.array([[c.value, c.low, c.high] for c in by_head]).T
    at_equal_frequency = np.array([partial_rank_correlation(norm, head, frequency) for head in scores])
    null_range = _random_correlations(mini, norm)
    inside = (null_range[0] <= correlations[0]) & (correlations[0] <= null_range[1])
    widths = sigma(mini.tokens + mini.positions[TOKEN_POSITION])
    exact = [rank_correlation(norm, head).value for head in semi_bias(mini.tokens / widths[:, None], mini.folded)]
    return Tokens(
        frequency, correlations, at_equal_frequency, null_range, _scatter_of_tokens(shown, inputs),
        tok_positive=int((correlations[1] > 0).sum()), tok_low=float(correlations[0].min()),
        tok_high=float(correlations[0].max()), tok_median=float(np.median(correlations[0])),
        tok_partial_median=float(np.median(at_equal_frequency)), tok_freq=rank_correlation(norm, frequency).value,
        tok_outside=int((~inside).sum()), tok_never=counted["never"], tok_exact_low=min(exact),
        tok_exact_high=max(exact), tok_exact_positive=sum(rho > 0 for rho in exact))


def _random_correlations(mini: FirstLayer, norm: Float[Tensor, " token"]) -> Float[np.ndarray, "2 head"]:
    """Return the range of nine in ten rank correlations of token norm with the scores of a random query bias."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(RANDOM_BIASES, *mini.weights.b_Q.shape, generator=generator, dtype=torch.float64).to(norm)
    keys = project(mini.tokens[norm.argsort()], mini.weights.W_K, 0 * mini.weights.b_K)
    rho = torch.stack([recency(drawn[:, head] @ keys[head].T) for head in range(len(keys))])
    return rho.quantile(torch.tensor([0.05, 0.95], dtype=rho.dtype, device=rho.device), dim=1).cpu().numpy()


def _scatter_of_tokens(shown: Checkpoint, inputs: Inputs) -> TokenScatter | None:
    """Return what the figure of GPT-2's tokens draws; ``None`` without a token table."""
    text = "\n\n".join(texts.passages(source=inputs.texts))
    table = first_layer.token_table(shown, text, device=inputs.device)
    if table is None:
        return None
    norm, scores = torch.tensor(table.norm), torch.tensor(table.scores)
    rho = [rank_correlation(norm, head).value if head.any() else 0.0 for head in scores]
    return TokenScatter(*table, [f"head {head}: {value:.2f}" for head, value in enumerate(rho)])


def measure_emergence(checkpoint: Checkpoint) -> Emergence:
    """Find when in gpt2-mini's training the semi-bias points along the positions, and when it has half its size."""
    _, trace = gpt2_mini.read_trace(checkpoint.folder)
    step, loss, rho, spread = (trace[name] for name in ("step", "held_out", "rank_correlation", "size"))
    rho, spread = rho[:, 0], spread[:, 0]
    few_heads = np.flatnonzero(~((rho > 0.5).mean(1) >= 0.5))
    settled = int(few_heads.max()) + 1
    half_size = np.flatnonzero(np.median(spread, 1) > np.median(spread[-1]) / 2)[0]
    return Emergence(
        step, loss, rho, spread, em_step=int(step[settled]), em_loss=float(loss[settled]),
        em_half=int(step[half_size]), em_half_loss=float(loss[half_size]),
        em_last=int(step[-1]), em_last_loss=float(loss[-1]), em_first_loss=float(loss[0]))
