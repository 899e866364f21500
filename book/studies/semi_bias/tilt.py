"""The semi-bias of GPT-2's positions: how it rises along the sequence, what it is made of, and what later layers do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from analysis.maps.locality import position_share
from analysis.models.controls import RUNGS
from analysis.statistics.correlation import recency
from book.publish import Numbers
from book.publish.records import Record, Result
from book.studies.semi_bias.first_layer import FirstLayer

LATER = 2  # the first layer that counts as a later one
Scores = Float[np.ndarray, "head position"]


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
    """Positions at which curves are read off: two keys ``apart``, an early and a late one, and two in the middle."""

    apart: int
    early: int
    third: int
    half: int
    late: int


@dataclass(frozen=True)
class Rise(Numbers):
    """What the rise of T^p from the early to the late mark is made of: b_Q, and the LayerNorm's bias through W_Q.

    ``query_bias`` and ``ln_bias`` are in nats, by head, for tokens as wide as a position; the shares are those of the
    LayerNorm's bias, of ``local_heads`` (3, 4 and 7 in GPT-2) and of the other rising heads but the weak one.
    """

    query_bias: Float[np.ndarray, " head"]
    ln_bias: Float[np.ndarray, " head"]
    beta_local_low: float
    beta_local_high: float
    beta_other_low: float
    beta_other_high: float

    @property
    def shares(self) -> Float[np.ndarray, " head"]:
        """The share of the LayerNorm's bias in the rise of each head."""
        return self.ln_bias / (self.query_bias + self.ln_bias)


@dataclass(frozen=True)
class FirstKey(Numbers):
    """Up to which query position 0 is the key with the largest T^p, by head; -1 where it never is.

    Tokens are as wide as a position in ``until``, without width or twice as wide in the other two. ``first_low`` and
    ``first_high`` are over the rising heads but the weak one. ``lead`` is by how much T^p exceeds that of key 0, at the
    first positions, for tokens as wide as a position and for tokens twice as wide.
    """

    lead: Float[np.ndarray, "width head position"]
    until: Int[np.ndarray, " head"]
    until_without_tokens: Int[np.ndarray, " head"]
    until_wide: Int[np.ndarray, " head"]
    first_low: int
    first_high: int
    first_weak: int
    first_wide_never: str  # the heads in which it never has, with tokens twice as wide
    first_wide_least: int  # the least of the other rising heads but the weak one
    first_wide_high: int


@dataclass(frozen=True)
class Tilt(Numbers):
    """The semi-bias of GPT-2's positions in nats: the page's formula, the LayerNorm folded in, and over sigma(p).

    ``rising_heads`` have a positive rank correlation of the last with the position.
    """

    raw: Scores
    folded: Scores
    over_sigma: Scores
    marks: Marks
    rising_heads: tuple[int, ...]
    falling_heads: tuple[int, ...]
    rising: int  # number of heads, of all heads
    heads: int
    odd: int  # the head that falls
    weak: int  # the rising head that changes the weights least
    rho_low: float  # rank correlations with the position: of the rising heads, raw and over sigma, and of the odd head
    rho_sigma_low: float
    rho_odd: float
    odd_first: float  # nats over sigma, at the first position and 50 positions later
    odd_50: float
    ratio_50_low: float  # by how much a key 50 positions later has more weight: least and most rising head
    ratio_50_high: float
    doubling: float  # positions in which the weight doubles: median rising head, and the steepest
    doubling_3: float
    steepest: int
    far: float  # by how much the late mark has more weight than the early one, in the median rising head
    turn_low: int  # lowest points of the rising heads, with no tokens and with tokens twice as wide as positions
    turn_high: int
    turn_wide_low: int
    turn_wide_high: int


def range_of_median_head(scores: Scores) -> float:
    """Return the range over positions, in nats; of an even number of heads, that of the lower one in the middle.

    Examples
    --------
    >>> range_of_median_head(np.array([[0.0, 3.0], [1.0, 2.0]]))
    1.0
    """
    ranges = np.sort(np.ptp(scores, axis=1))
    return float(ranges[(len(ranges) - 1) // 2])


def measure_rise(gpt2: Record | Result, tilt: Tilt, local: tuple[int, ...]) -> Rise:
    """Split the rise of T^p between b_Q and the LayerNorm's bias."""
    whole, query_bias = (_at_typical_width(gpt2, name) for name in ("semi_folded", "semi_query_bias"))
    rise, from_query_bias = (curves[:, tilt.marks.late] - curves[:, tilt.marks.early] for curves in (whole, query_bias))
    shares = ((rise - from_query_bias) / rise).numpy()
    others = [head for head in steady_heads(tilt) if head not in local] or list(range(tilt.heads))
    local = local or tuple(range(tilt.heads))
    return Rise(
        from_query_bias.numpy(),
        (rise - from_query_bias).numpy(),
        beta_local_low=float(shares[list(local)].min()),
        beta_local_high=float(shares[list(local)].max()),
        beta_other_low=float(shares[others].min()),
        beta_other_high=float(shares[others].max()),
    )


def steady_heads(tilt: Tilt) -> list[int]:
    """Return the heads that are neither the odd nor the weak one."""
    return [head for head in range(tilt.heads) if head not in (tilt.odd, tilt.weak)]


def name_heads(heads: tuple[int, ...]) -> str:
    """Name heads in a sentence.

    Examples
    --------
    >>> name_heads((3, 4, 7)), name_heads((5,)), name_heads(())
    ('3, 4 and 7', '5', 'no head')
    """
    *others, last = map(str, heads or ("no head",))
    return f"{', '.join(others)} and {last}" if others else last


def measure_first_key(gpt2: Record | Result, tilt: Tilt) -> FirstKey:
    """Find up to which query position 0 has the largest T^p of all visible keys."""
    scores = [_at_width(gpt2, "semi_folded", times) for times in (0, 1, 2)]
    none, typical, wide = map(last_query_of_first_key, scores)
    steady = steady_heads(tilt)
    return FirstKey(
        torch.stack([curves - curves[:, :1] for curves in scores[1:]])[..., : tilt.marks.half].numpy(),
        typical,
        none,
        wide,
        first_low=int(typical[steady].min()),
        first_high=int(typical[steady].max()),
        first_weak=int(typical[tilt.weak]),
        first_wide_never=name_heads(np.flatnonzero(wide < 0).tolist()),
        first_wide_least=int(min((until for until in wide[steady] if until > 0), default=-1)),
        first_wide_high=int(wide[steady].max()),
    )


def last_query_of_first_key(scores: Float[torch.Tensor, "head key"]) -> Int[np.ndarray, " head"]:
    """Return the last query, from 1 on, whose visible keys all score at most what key 0 does; -1 where there is none.

    Examples
    --------
    >>> last_query_of_first_key(torch.tensor([[2.0, 1.0, 3.0, 0.0], [0.0, 1.0, 2.0, 3.0]])).tolist()
    [1, -1]
    """
    wins = scores.cummax(1).values[:, 1:] <= scores[:, :1]
    return np.array([int(head.nonzero().max()) + 1 if head.any() else -1 for head in wins])


def _at_typical_width(gpt2: Record | Result, name: str) -> Float[torch.Tensor, "head position"]:
    """Return scores with tokens as wide as a position, the width in the middle of the record's three."""
    return _at_width(gpt2, name, 1)


def _at_width(gpt2: Record | Result, name: str, times: float) -> Float[torch.Tensor, "head position"]:
    """Return scores over sigma, tokens being so many times as wide as a position, in an unknown direction."""
    sigma_p = torch.tensor(gpt2.array("sigma_p"))
    return torch.tensor(gpt2.array(name)) / (sigma_p**2 + (times * sigma_p.median()) ** 2).sqrt()


def measure_table(gpt2: Record | Result) -> PositionTable:
    """Describe GPT-2's table of positions."""
    steps, shares, norms = gpt2.array("table_steps"), gpt2.array("pc_share"), gpt2.array("norm_p")
    return PositionTable(
        every_8th=steps / 127.0 * float(gpt2.array("table_limit")[0]),
        components=gpt2.array("pc_scores"),
        shares=shares,
        places=len(norms),
        width=steps.shape[1],
        pc3=float(shares[:3].sum()),
        pc_ramp=float(gpt2.array("pc_recency")[2]),
        norm_last=float(norms[-1]),
        norm_median=float(np.median(norms)),
    )


def measure_tilt(gpt2: Record | Result) -> Tilt:
    """Say how the semi-bias of GPT-2's positions rises along the sequence, and where it does not."""
    raw, folded, over_sigma = (torch.tensor(gpt2.array(f"semi_{name}")) for name in ("raw", "folded", "sigma"))
    rho_raw, rho, heads, places = recency(raw), recency(over_sigma), *raw.shape
    marks = (
        Marks(50, 100, 350, 500, 1000)
        if places > 1000
        else Marks(places // 20, places // 10, places // 3, places // 2, places - 2)
    )
    rising = [h for h in range(heads) if rho[h] > 0] or list(range(heads))
    falling = [h for h in range(heads) if rho[h] < 0] or [int(rho.argmin())]
    typical, wide = (_at_width(gpt2, "semi_folded", times) for times in (1, 2))
    ratio = (typical[:, marks.apart : -1] - typical[:, : -1 - marks.apart]).exp().median(1).values
    slope = (typical[:, marks.late] - typical[:, marks.early]) / (marks.late - marks.early)
    turns, wide_turns = over_sigma[rising, :-1].argmin(1), wide[rising, :-1].argmin(1)
    odd, steepest = falling[0], int(slope.argmax())
    return Tilt(
        raw.numpy(),
        folded.numpy(),
        over_sigma.numpy(),
        marks,
        tuple(rising),
        tuple(falling),
        rising=int((rho > 0).sum()),
        heads=heads,
        odd=odd,
        weak=rising[int(ratio[rising].argmin())],
        rho_low=float(rho_raw[rising].min()),
        rho_sigma_low=float(rho[rising].min()),
        rho_odd=float(rho_raw[odd]),
        odd_first=float(over_sigma[odd, 0]),
        odd_50=float(over_sigma[odd, marks.apart]),
        ratio_50_low=float(ratio[rising].min()),
        ratio_50_high=float(ratio[rising].max()),
        doubling=float((np.log(2) / slope[rising]).median()),
        doubling_3=float(np.log(2) / slope[steepest]),
        steepest=steepest,
        far=round(float(((marks.late - marks.early) * slope[rising]).exp().median()), -2),
        turn_low=int(turns.min()),
        turn_high=int(turns.max()),
        turn_wide_low=int(wide_turns.min()),
        turn_wide_high=int(wide_turns.max()),
    )


@dataclass(frozen=True)
class Layers(Numbers):
    """Raw positions in every layer of GPT-2, and what of the position is left in the states of gpt2-mini.

    The effective semi-bias, over sigma(p): its rank correlation with the position, its spread, and the lead of key 0
    over the mean of the other positions, in nats. ``ladder`` holds, by rung, in how many heads key 0 is ahead.
    """

    rho: Float[np.ndarray, "layer head"]
    spread: Float[np.ndarray, "layer head"]
    first_lead: Float[np.ndarray, "layer head"]
    ahead: Int[np.ndarray, " layer"]
    ladder: Mapping[str, Int[np.ndarray, "seed layer"]]
    deep_0: float  # median spread in layers 0 and 6, in nats
    deep_6: float
    ahead_all: int  # heads in which key 0 is ahead, from layer 2 on
    deep_heads: int
    ahead_control_low: int  # the same from layer 2 on in the controls: fewest and most of all rungs and seeds
    ahead_control_high: int
    top_all: int  # heads from layer 2 on in which no other position scores higher than key 0
    share_0: float  # share of the variance of what layers 0 and 1 read that the position explains
    share_1: float
    cos_0: float  # median cosine of the mean state at a position with the position's vector
    cos_1: float


def measure_layers(
    gpt2: Record | Result, mini: FirstLayer, language_model: nn.Module, windows: Int[Tensor, "window position"]
) -> Layers:
    """Feed raw positions to every layer of GPT-2; measure what is left of the position in gpt2-mini's states."""
    spread, lead = gpt2.array("effective_std"), gpt2.array("first_lead")
    medians, ahead = np.median(spread, axis=1), (lead > 0).sum(1)
    controls = (gpt2.array("ladder_first_lead") > 0).sum(-1)
    later = ahead[LATER:] if len(ahead) > LATER else ahead
    late_controls = controls[..., -len(later) :].sum(-1)
    states = language_model.transformer(windows[:, :-1], output_hidden_states=True).hidden_states[:2]
    shares = [position_share(state) for state in states]
    cosines = [_cosine_with_positions(state, mini.positions) for state in states]
    return Layers(
        gpt2.array("effective_rho"),
        spread,
        lead,
        ahead,
        dict(zip(RUNGS, controls, strict=True)),
        float(medians[0]),
        float(medians[min(6, len(medians) - 1)]),
        ahead_all=int(later.sum()),
        deep_heads=len(later) * lead.shape[1],
        ahead_control_low=int(late_controls.min()),
        ahead_control_high=int(late_controls.max()),
        top_all=int((gpt2.array("first_beaten_by")[-len(later) :] == 0).sum()),
        share_0=shares[0],
        share_1=shares[1],
        cos_0=cosines[0],
        cos_1=cosines[1],
    )


def _cosine_with_positions(state: Float[Tensor, "window position model"], p: Float[Tensor, "position model"]) -> float:
    """Return the median cosine of the mean state at a position with the position's vector, both less their mean."""
    mean_state = state.mean(0) - state.mean((0, 1))
    return float(torch.nn.functional.cosine_similarity(mean_state, p - p.mean(0), dim=1).median())
