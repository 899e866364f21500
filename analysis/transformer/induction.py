r"""The induction head built by hand: six matrices that copy what followed the last time.

Tokens and positions are one-hot. Layer 1 attends ``offset`` positions back and stores the token it finds; layer 2
attends to where the stored token equals the current one and copies.
"""

import math
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.checks import check_vocabulary
from analysis.core.signatures import checked
from analysis.transformer.attention import mask_future, softmax

Square = Float[Tensor, "model model"]


@dataclass(frozen=True)
class Layer:
    """One simplified layer: the score matrix ``A``, the value matrix ``V``, the passthrough ``W``."""

    A: Square
    V: Square
    W: Square

    def as_attention(self) -> AttentionLayer:
        """Return the same head in the usual factors: ``W_Q = A``, ``W_K = I``, ``W_V W_O = V^T``, no biases.

        ``W_Q`` is multiplied by ``sqrt(model)``, which ``attention.compute_scores`` divides by again.
        """
        width = self.A.shape[0]
        eye, zero = torch.eye(width, dtype=self.A.dtype, device=self.A.device), self.A.new_zeros(width)
        of_one_head = (self.A * math.sqrt(width), eye, self.V.T, eye, zero, zero, zero)
        return AttentionLayer(*(each[None] for each in of_one_head), b_O=zero, mask=Mask(causal=True))


@dataclass(frozen=True)
class InductionHead:
    """Two layers and the sizes that they were built for; width ``vocab + max(vocab, length)``."""

    first: Layer
    second: Layer
    vocab: int
    length: int

    @property
    def width(self) -> int:
        """Width of the residual stream: the token half and the half shared by position and previous token."""
        return self.vocab + max(self.vocab, self.length)


@dataclass(frozen=True)
class Step:
    """What one layer computed: scores (unmasked), attention (masked, rows sum to 1) and its output ``Y``."""

    scores: Float[Tensor, "query key"]
    attention: Float[Tensor, "query key"]
    output: Float[Tensor, "position model"]


@checked(finite=True)
def build(
    vocab: int,
    length: int,
    *,
    beta: float = 100.0,
    gain: float = 100.0,
    offset: int = 1,
    similarity: Float[Tensor, "vocab vocab"] | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> InductionHead:
    r"""Build the six matrices for any vocabulary, length and sharpness.

    .. math::  A_1 = \begin{pmatrix} 0 & 0 \\ 0 & \beta (2 S_n - 1) \end{pmatrix},\;
               V_1 = \begin{pmatrix} 0 & 0 \\ I & 0 \end{pmatrix},\;
               W_1 = \begin{pmatrix} I & 0 \\ 0 & 0 \end{pmatrix},\;
               A_2 = \begin{pmatrix} 0 & \beta G \\ 0 & 0 \end{pmatrix},\;
               V_2 = \begin{pmatrix} g I & 0 \\ 0 & 0 \end{pmatrix},\; W_2 = 0

    Parameters
    ----------
    vocab, length
        Number of tokens, and of positions; the halves need not be equal.
    beta
        Sharpness of both layers, in nats: layer-1 scores are ``+beta`` at the offset and ``-beta`` elsewhere.
    gain
        ``g``, what ``V_2`` multiplies the copied token by; the slides print 100.
    offset
        ``n``: layer 1 attends ``n`` positions back (``S_n`` has ones on the n-th sub-diagonal).
    similarity
        ``G``: how well a token (row) matches a stored token (column); the identity where omitted.
    dtype
        Dtype of the matrices: float64, or float32 to see what it costs.
    device
        Where they lie; where ``similarity`` does, or on the CPU, if omitted.

    Raises
    ------
    ValueError
        If a size is not a positive whole number, ``offset`` is not in ``1..length``, a number is not finite (in
        ``dtype``), or ``dtype`` is not a floating type.

    References
    ----------
    "Transformers: induction head example", slides of the University of Maryland adapted from Michael Hahn, with 6
    tokens, 6 positions, an offset of 1 and the identity for similarity.

    Examples
    --------
    >>> build(2, 2).first.A
    tensor([[   0.,    0.,    0.,    0.],
            [   0.,    0.,    0.,    0.],
            [   0.,    0., -100., -100.],
            [   0.,    0.,  100., -100.]], dtype=torch.float64)
    """
    if not all(isinstance(size, int) for size in (vocab, length, offset)):
        raise ValueError(f"vocab, length and offset must be whole numbers, got {vocab}, {length}, {offset}")
    if vocab < 1 or length < 1:
        raise ValueError(f"vocab and length must be at least 1, got {vocab} and {length}")
    if not 1 <= offset <= length:
        raise ValueError(f"offset must be between 1 and length = {length}, got {offset}")
    if not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating type, got {dtype}")
    if not (abs(beta) <= torch.finfo(dtype).max and abs(gain) <= torch.finfo(dtype).max):
        raise ValueError(f"beta and gain must be finite in {dtype}, got {beta} and {gain}")
    if similarity is None:
        similarity = torch.eye(vocab, dtype=dtype)
    if len(similarity) != vocab:
        raise ValueError(f"similarity must be ({vocab}, {vocab}), got {tuple(similarity.shape)}")
    # The stream: one half for the token, one for its position, over which layer 1 writes the token before.
    width = vocab + max(vocab, length)
    token, position, stored = slice(0, vocab), slice(vocab, vocab + length), slice(vocab, 2 * vocab)

    def block(rows: slice, columns: slice, value: Tensor) -> Tensor:
        matrix = torch.zeros(width, width, dtype=dtype, device=device or similarity.device)
        matrix[rows, columns] = value
        return matrix

    eye, back = torch.eye(vocab, dtype=dtype), torch.ones(length - offset, dtype=dtype).diag(-offset)
    # Layer 1 looks `offset` positions back and stores what it finds; layer 2 looks for its own token in that store.
    first = Layer(block(position, position, beta * (2 * back - 1)), block(stored, token, eye), block(token, token, eye))
    same = beta * similarity.to(dtype)
    second = Layer(block(token, stored, same), block(token, token, gain * eye), block(token, token, 0 * eye))
    return InductionHead(first, second, vocab, length)


@checked
def embed(tokens: Int[Tensor, " position"], head: InductionHead) -> Float[Tensor, "position model"]:
    """Return one row per position: one-hot token, then one-hot position."""
    if len(tokens) > head.length:
        raise ValueError(f"tokens must number 1 to {head.length} (the length built for), got {len(tokens)}")
    check_vocabulary("tokens", tokens, head.vocab)
    x = head.first.A.new_zeros(len(tokens), head.width)
    here = torch.arange(len(tokens), device=x.device)
    x[here, tokens.long()] = 1
    x[here, head.vocab + here] = 1
    return x


@checked
def step(x: Float[Tensor, "position model"], layer: Layer) -> Step:
    r"""Run one layer, normalising over ``s <= i``.

    .. math::  Y_i = \sum_{j \le i} \hat a_{ij}\, V x_j + W x_i, \quad
               \hat a_{ij} = e^{a_{ij}} / \sum_{s \le i} e^{a_{is}}, \quad a_{ij} = x_i^\top A x_j

    ``x`` has one row per position, so the matrices act from the right, transposed; equations 1 to 3 of the slides.
    """
    scores = einsum(x, layer.A, x, "query left, left right, key right -> query key")
    attention = softmax(mask_future(scores))
    message = einsum(attention, x, layer.V, "query key, key model, out model -> query out")
    return Step(scores, attention, message + einsum(x, layer.W, "query model, out model -> query out"))


def run(tokens: Int[Tensor, " position"], head: InductionHead) -> tuple[Step, Step]:
    """Run both layers on a sequence; the second's ``output[i, :vocab] / gain`` is what the head copies at ``i``.

    Examples
    --------
    In ``2 0 1 0`` the second 0 finds that 1 came after the first:

    >>> first, second = run(torch.tensor([2, 0, 1, 0]), build(3, 4, gain=1.0))
    >>> second.output[3, :3].round(decimals=6)
    tensor([0., 1., 0.], dtype=torch.float64)
    """
    first = step(embed(tokens, head), head.first)
    return first, step(first.output, head.second)


@checked
def predict_next(
    tokens: Int[Tensor, " position"],
    vocab: int,
    *,
    beta: float = 100.0,
    offset: int = 1,
    similarity: Float[Tensor, "vocab vocab"] | None = None,
) -> Float[Tensor, "position vocab"]:
    """Build a head that fits the tokens and return its distribution over the next token at every position.

    ``beta``, ``offset`` and ``similarity`` are those of :func:`build`; the gain is 1, so that each row sums to 1.

    Examples
    --------
    >>> predict_next(torch.tensor([2, 0, 1, 0]), vocab=3)[3].round(decimals=6)
    tensor([0., 1., 0.], dtype=torch.float64)
    """
    head = build(vocab, len(tokens), beta=beta, gain=1.0, offset=offset, similarity=similarity, device=tokens.device)
    return run(tokens, head)[1].output[:, :vocab]


def target_mass(beta: float, keys: int, matches: int) -> float:
    r"""Return the attention that all matches together get, in closed form.

    .. math::  M = \frac{m e^\beta}{m e^\beta + n - m}

    Parameters
    ----------
    beta
        Score of a match; all other scores are 0.
    keys
        ``n``: how many keys are allowed (position ``i`` counts from 0 and has ``i + 1``).
    matches
        ``m``: how many of them match.

    Raises
    ------
    ValueError
        Unless ``0 <= matches <= keys`` and ``keys >= 1``, or if ``beta`` is nan.

    Examples
    --------
    >>> target_mass(0.0, keys=4, matches=1)
    0.25
    """
    check_counts(keys, matches)
    if math.isnan(beta):
        raise ValueError("beta must be a number, got nan")
    if matches in (0, keys):
        return float(matches > 0)
    if beta < 0:  # the other way round the exponential could overflow
        return matches * math.exp(beta) / (matches * math.exp(beta) + keys - matches)
    return 1 / (1 + (keys - matches) / matches * math.exp(-beta))


def required_sharpness(mass: float, keys: int, matches: int = 1) -> float:
    r"""Return the ``beta`` at which the matches get ``mass``: ``log(M / (1 - M)) + log((n - m) / m)``.

    It grows like the logarithm of the length: twice the keys cost ``log 2`` more.

    >>> round(required_sharpness(0.5, keys=101), 4) == round(math.log(100), 4)
    True
    """
    check_counts(keys, matches)
    if not 0 < mass < 1:
        raise ValueError(f"mass must lie strictly between 0 and 1, got {mass}")
    if matches in (0, keys):
        raise ValueError(f"with {matches} matches among {keys} keys the mass does not depend on beta")
    return math.log(mass / (1 - mass)) + math.log((keys - matches) / matches)


def check_counts(keys: int, matches: int) -> None:
    """Raise for counts that no row of attention can have."""
    if keys < 1 or not 0 <= matches <= keys:
        raise ValueError(f"matches must lie in 0..keys and keys be at least 1, got {matches} and {keys}")
