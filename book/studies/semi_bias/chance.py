"""Is GPT-2's semi-bias learned? Random query biases, the control, and what the biases change."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from analysis.decomposition.terms import semi_bias
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record, Result
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import FirstLayer

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
    loss = first_layer.loss_without(language_model, windows)
    if abs(first_layer.loss_without(language_model, windows, "b_K", (0, 1)) - loss) >= 1e-10:
        raise AssertionError("the loss without b_K differs, while the page says that it stays the same to 1e-10")
    times, _ = live_or_record("peers-packages", inputs, recompute=False)
    return Losses(
        loss,
        first_layer.loss_without(language_model, windows, "b_Q", (0,)) - loss,
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
