"""Norm and semi-bias of tokens, in gpt2-mini and, where its token table is at hand, in GPT-2."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.data import texts
from analysis.decomposition.terms import semi_bias
from analysis.models.checkpoints import Checkpoint
from analysis.statistics.correlation import partial_rank_correlation, rank_correlation, recency
from analysis.transformer.attention import project
from analysis.transformer.layernorm import sigma
from book.publish import Inputs, Numbers, live_or_record
from book.studies.semi_bias import first_layer
from book.studies.semi_bias.first_layer import FirstLayer

RANDOM_BIASES = 300
TOKEN_POSITION = 64  # where the tokens' semi-bias is computed with the LayerNorm
PerHead = Float[np.ndarray, " head"]


class TokenScatter(NamedTuple):
    """One dot per token: norm, semi-bias in every head in nats, number of occurrences; and the heads' correlations.

    ``correlations`` holds value, low and high end of the 95 % interval; 0 for a head without a semi-bias.
    """

    norm: Float[np.ndarray, " token"]
    scores: Float[np.ndarray, "head token"]
    counts: Float[np.ndarray, " token"]
    correlations: Float[np.ndarray, "3 head"]

    @property
    def titles(self) -> list[str]:
        """The heads with their correlations."""
        return [f"head {head}: {value:.2f}" for head, value in enumerate(self.correlations[0])]


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
    tok_partial_low: float  # at equal frequency: lowest and highest head
    tok_partial_high: float
    tok_partial_positive: int
    tok_flipped: int  # heads whose correlation changes its sign at equal frequency
    tok_freq: float  # rank correlation of norm and frequency
    tok_outside: int  # heads outside the range of random biases
    tok_never: int  # tokens that never occur
    tok_exact_low: float  # with the LayerNorm, at position 64
    tok_exact_high: float
    tok_exact_positive: int


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
        frequency,
        correlations,
        at_equal_frequency,
        null_range,
        _scatter_of_tokens(shown, inputs),
        tok_positive=int((correlations[1] > 0).sum()),
        tok_low=float(correlations[0].min()),
        tok_high=float(correlations[0].max()),
        tok_partial_low=float(at_equal_frequency.min()),
        tok_partial_high=float(at_equal_frequency.max()),
        tok_partial_positive=int((at_equal_frequency > 0).sum()),
        tok_flipped=int((correlations[0] * at_equal_frequency < 0).sum()),
        tok_freq=rank_correlation(norm, frequency).value,
        tok_outside=int((~inside).sum()),
        tok_never=counted["never"],
        tok_exact_low=min(exact),
        tok_exact_high=max(exact),
        tok_exact_positive=sum(rho > 0 for rho in exact),
    )


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
    by_head = [rank_correlation(norm, head) if head.any() else None for head in scores]
    return TokenScatter(*table, np.array([[c.value, c.low, c.high] if c else [0.0] * 3 for c in by_head]).T)
