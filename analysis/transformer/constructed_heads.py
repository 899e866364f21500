r"""Heads built from formulas, one for each of the functions that the literature gives to heads.

They read ``[one-hot token | one-hot position]`` and are ordinary layers of one head: tables for queries, keys and the
query bias.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.checks import check_vocabulary
from analysis.core.signatures import checked
from analysis.transformer.attention import compute_scores, hide_keys, softmax

SHARP = 8.0  # nats: the best of 64 keys then takes 98 % of a row


@checked
def embed(tokens: Int[Tensor, " position"], vocab: int) -> Float[Tensor, "position model"]:
    """Return one row per position: one-hot token, then one-hot position.

    >>> embed(torch.tensor([1, 0]), 2)
    tensor([[0., 1., 1., 0.],
            [1., 0., 0., 1.]], dtype=torch.float64)
    """
    check_vocabulary("tokens", tokens, vocab)
    eye = torch.nn.functional.one_hot(tokens.long(), vocab)
    return torch.cat([eye, torch.eye(len(tokens)).to(eye)], 1).double()


def uniform(vocab: int, length: int) -> AttentionLayer:
    """Average: no scores at all (``W_Q = W_K = 0``). The first document's head."""
    return _layer(torch.zeros(vocab + length, 1), torch.zeros(vocab + length, 1))


def no_keys(vocab: int, length: int, seed: int = 0) -> AttentionLayer:
    """Draw queries at random, with a query bias, but no keys: ``W_K = 0``. Scores are row constants (``b_K`` too)."""
    g = torch.Generator().manual_seed(seed)
    W_Q, b_Q, b_K = (3 * torch.randn(*shape, generator=g) for shape in ((vocab + length, 4), (4,), (4,)))
    return _layer(W_Q, torch.zeros(vocab + length, 4), b_Q, b_K)


def constant_pattern(vocab: int, length: int, token: int, sharpness: float | int = SHARP) -> AttentionLayer:
    """Prefer one token, whatever the query: ``W_Q = 0`` and a query bias. The pattern is its constant part alone."""
    if not 0 <= token < vocab:  # other rows of the table are positions
        raise ValueError(f"token must lie in 0..{vocab - 1}, got {token}")
    W_K = torch.zeros(vocab + length, 1)
    W_K[token] = 1
    return _layer(torch.zeros(vocab + length, 1), W_K, torch.tensor([float(sharpness)]))


def previous_token(vocab: int, length: int, back: int = 1, sharpness: float | int = SHARP) -> AttentionLayer:
    """Attend ``back`` positions back, position against position: layer 1 of the induction head."""
    if not 1 <= back < length:
        raise ValueError(f"back must lie in 1..{length - 1}, got {back}")
    W_Q = torch.cat([torch.zeros(vocab, length), sharpness * torch.eye(length).roll(back, 0).tril()])
    return _layer(W_Q, torch.cat([torch.zeros(vocab, length), torch.eye(length)]))


def matched_token(vocab: int, length: int, sharpness: float | int = SHARP) -> AttentionLayer:
    """Attend to equal tokens, token against token: the block that layer 2 of the induction head is made of."""
    token = torch.cat([torch.eye(vocab), torch.zeros(length, vocab)])
    return _layer(sharpness * token, token)


def position_bias(vocab: int, length: int, slope: float | int = 1.0) -> AttentionLayer:
    """Prefer late positions, whatever the query: the positional semi-bias ``T^p``, ``slope`` nats per position."""
    return _layer(torch.zeros(vocab + length, 1), _ramp(vocab, length), torch.tensor([float(slope)]))


def position_match(vocab: int, length: int, period: float | int = 16, sharpness: float | int = SHARP) -> AttentionLayer:
    """Attend where the phase is the same, position against position on a circle: ``T^pp``."""
    circle = _circle(vocab, length, period)
    return _layer(sharpness * circle, circle)


def position_both(
    vocab: int, length: int, slope: float | int = 0.1, period: float | int = 16, sharpness: float | int = SHARP
) -> AttentionLayer:
    """Attend to the latest place of the same phase: ``T^p`` and ``T^pp`` in one head."""
    circle, ramp = _circle(vocab, length, period), _ramp(vocab, length)
    return _layer(
        torch.cat([sharpness * circle, 0 * ramp], 1),
        torch.cat([circle, ramp], 1),
        torch.tensor([0.0, 0.0, float(slope)]),
    )


@checked
def attention_map(
    layer: AttentionLayer, tokens: Int[Tensor, " position"], *, causal: bool = False
) -> Float[Tensor, "query key"]:
    """Return the map of such a head on tokens numbered ``0..vocab-1``, at most as many as it was built for.

    >>> attention_map(constant_pattern(2, 3, token=1, sharpness=100.0),
    ...               torch.tensor([0, 1, 0]))[0].round()
    tensor([0., 1., 0.], dtype=torch.float64)
    """
    vocab = layer.model - len(tokens)
    scores = compute_scores(embed(tokens, vocab).to(layer.W_Q.dtype), layer)
    return softmax(hide_keys(scores, Mask(causal=causal)))[0]


def _ramp(vocab: int, length: int) -> Tensor:
    return torch.cat([torch.zeros(vocab), torch.arange(length) - (length - 1.0)])[:, None]


def _circle(vocab: int, length: int, period: float | int) -> Tensor:
    if not 0 < period < math.inf:
        raise ValueError(f"period must be positive and finite, got {period}")
    angle = 2 * math.pi * torch.arange(length, dtype=torch.float64) / period
    return torch.cat([torch.zeros(vocab, 2, dtype=torch.float64), torch.stack([angle.cos(), angle.sin()], 1)])


def _layer(W_Q: Tensor, W_K: Tensor, b_Q: Tensor | None = None, b_K: Tensor | None = None) -> AttentionLayer:
    """Make a layer of one head whose scores are ``(x W_Q + b_Q)(x W_K + b_K)^T`` in nats; its values are the rows."""
    model, channel = W_Q.shape
    none = torch.zeros(channel)
    root = math.sqrt(channel)
    b_Q, b_K = none if b_Q is None else b_Q, none if b_K is None else b_K
    nothing = torch.zeros(model, channel)
    fields = (W_Q * root, W_K, nothing, nothing.T, b_Q * root, b_K, none)
    return AttentionLayer(*(t[None].double().contiguous() for t in fields), b_O=torch.zeros(model).double())
