r"""What Q and K measure: stretching, the direction cone, and the form ``M = W_Q W_K^T``.

A head compares row ``x`` with row ``y`` by ``x M y^T``. Everything here is computed from the factors, so nothing
of size ``model x model`` is ever formed. What belongs here: norms, singular values, the spectrum of M's symmetric
part, symmetry of scores. What does not: the four terms of a score (``bias``), pictures of M (``patterns``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.axes import AttentionWeights, Residual

Factor = Float[Tensor, "head model channel"]
MAPS = ("Q", "K", "V")
"""The order of the axis ``map``."""


def singular_values(W: Factor) -> Float[Tensor, "head least"]:
    """Return each head's singular values, largest first; the first is the most a row can be stretched.

    >>> singular_values(torch.tensor([[[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]]))
    tensor([[4., 3.]])
    """
    return torch.linalg.svdvals(W)


def amplification(x: Residual, W: Factor,
                  b: Float[Tensor, "head channel"] | None = None) -> Float[Tensor, "*batch head position"]:
    r"""Measure by how much each row grows on its way into each head: :math:`\|x_i W + b\| / \|x_i\|`.

    Parameters
    ----------
    x
        The rows that the layer reads; a row of zeros gives ``nan``.
    W, b
        One of the layer's three maps; without ``b`` the linear part alone.

    Returns
    -------
    Tensor
        Dimensionless; above 1 the row was amplified. Never above the largest singular value when ``b`` is absent.

    Notes
    -----
    Ledger B-13, B-14.

    Examples
    --------
    >>> amplification(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[[2.0], [0.0]]]))
    tensor([[2.0000, 1.2000]])
    """
    out = einsum(x, W, "... position model, head model channel -> ... head position channel")
    if b is not None:
        out = out + b[:, None]
    return out.norm(dim=-1) / x.norm(dim=-1).unsqueeze(-2)


def mean_amplification(W: Factor) -> Float[Tensor, " head"]:
    r"""Return the root mean square stretch over all directions, :math:`\|W\|_F / \sqrt{d}`.

    For a direction drawn uniformly from the sphere the expectation of ``|x W|^2 / |x|^2`` is exactly its square.

    >>> mean_amplification(torch.tensor([[[2.0], [0.0], [0.0], [0.0]]]))
    tensor([1.])
    """
    return W.flatten(1).norm(dim=1) / math.sqrt(W.shape[1])


def cone_position(x: Residual, W: Factor) -> Float[Tensor, "*batch head position"]:
    r"""Return how near each row comes to the largest stretch: :math:`\|x_i W\| / (\sigma_1 \|x_i\|)`, from 0 to 1.

    The *direction cone* of aperture ``epsilon`` holds the rows at ``1 - epsilon`` or above.

    Notes
    -----
    Ledger B-15: the paper names the cone and does not define it; this is the definition that the book computes.

    Examples
    --------
    >>> cone_position(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))
    tensor([[1.0000, 0.5000]])
    """
    return amplification(x, W) / singular_values(W)[:, :1]


def in_cone(x: Residual, W: Factor, epsilon: float) -> Bool[Tensor, "*batch head position"]:
    """Say which rows lie in each head's direction cone: stretched to within ``epsilon`` of the most possible.

    Raises
    ------
    ValueError
        If ``epsilon`` is outside ``[0, 1]``: at 1 every row lies in the cone.
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must lie in [0, 1], got {epsilon}")
    return cone_position(x, W) >= 1 - epsilon


def over_heads(measure: Callable[[Factor], Float[Tensor, " head"]],
               layers: Sequence[AttentionWeights]) -> Float[Tensor, "map layer head"]:
    """Apply a measure of one matrix to ``W_Q``, ``W_K`` and ``W_V`` of every layer: one number a map and head."""
    return torch.stack([torch.stack([measure(getattr(layer, f"W_{name}")) for layer in layers]) for name in MAPS])


def amplifications(states: Float[Tensor, "state position model"], layers: Sequence[AttentionWeights], *,
                   biased: bool = True) -> Float[Tensor, "map layer head position"]:
    """Measure ``amplification`` for every row that every layer reads, in all three maps and all heads.

    Parameters
    ----------
    states
        What each layer reads, first layer first; a last state that no layer reads may follow.
    biased
        Whether the biases count (the rows of Q, K and V) or the linear parts alone (what singular values speak of).

    Notes
    -----
    Ledger B-13, B-14.
    """
    return torch.stack([torch.stack([
        amplification(x, getattr(layer, f"W_{name}"), getattr(layer, f"b_{name}") if biased else None)
        for x, layer in zip(states, layers, strict=False)]) for name in MAPS])


def isotropic_cone_positions(W: Factor, samples: int, rng: np.random.Generator) -> Float[Tensor, "head sample"]:
    """Draw cone positions of directions that are uniform on the sphere: what chance puts into the cone.

    Only the singular values matter: with ``g`` normal, the position squared is
    ``sum(s_k^2 g_k^2) / (s_1^2 sum(g^2))``, and the directions that ``W`` sends to 0 enter as one chi-square.
    """
    s = singular_values(W).double().numpy()
    head, least = s.shape
    g = rng.standard_normal((samples, least)) ** 2
    rest = rng.chisquare(W.shape[1] - least, samples) if W.shape[1] > least else np.zeros(samples)
    squared = (s**2 / s[:, :1] ** 2) @ g.T / (g.sum(1) + rest)
    return torch.from_numpy(np.sqrt(squared)).reshape(head, samples)


@dataclass(frozen=True)
class Form:
    """The symmetric part of ``M = W_Q W_K^T``, by its eigenvalues, and how much of ``M`` is not symmetric.

    Attributes
    ----------
    eigenvalues
        ``(head, at most 2 channel)``, ascending: those that can differ from 0.
    positive, negative
        How many of them lie clearly above and below 0 in each head.
    antisymmetric
        Share of ``|M|_F^2`` in ``(M - M^T) / 2``: 0 for a symmetric form, 1/2 expected of unrelated factors.
    """

    eigenvalues: Float[Tensor, "head eigenvalue"]
    positive: Int[Tensor, " head"]
    negative: Int[Tensor, " head"]
    antisymmetric: Float[Tensor, " head"]


def take_form(W_Q: Factor, W_K: Factor) -> Form:
    r"""Find the signature of :math:`(M + M^T)/2` and the antisymmetric share of M from the factors alone.

    With ``[W_Q W_K] = U R`` (QR), the symmetric part is ``U (R J R^T / 2) U^T`` where ``J`` swaps the two halves,
    so a problem of size ``2 channel`` has all its non-zero eigenvalues.

    Raises
    ------
    ValueError
        If the factors have different shapes.

    Notes
    -----
    Ledger B-21, B-24. Computed in float64. An eigenvalue counts as 0 below ``size * 2.2e-16`` of the largest.

    Examples
    --------
    ``M = e_1 e_2^T``: one positive and one negative direction, and half of M is antisymmetric.

    >>> form = take_form(torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[0.0], [1.0]]]))
    >>> form.eigenvalues.tolist(), form.antisymmetric.tolist()
    ([[-0.5, 0.5]], [0.5])
    """
    if W_Q.shape != W_K.shape:
        raise ValueError(f"W_K must have the shape of W_Q {tuple(W_Q.shape)}, got {tuple(W_K.shape)}")
    W_Q, W_K = W_Q.double(), W_K.double()
    R = torch.linalg.qr(torch.cat([W_Q, W_K], dim=-1), mode="r").R
    left, right = R.chunk(2, dim=-1)
    M = left @ right.mT
    eigenvalues = torch.linalg.eigvalsh((M + M.mT) / 2)
    zero = eigenvalues.abs().amax(1, keepdim=True) * max(W_Q.shape[1:]) * torch.finfo(torch.float64).eps
    total = M.square().sum((1, 2))
    share = (M - M.mT).square().sum((1, 2)) / (4 * total)
    return Form(eigenvalues, (eigenvalues > zero).sum(1), (eigenvalues < -zero).sum(1), share)


def asymmetry(matrix: Float[Tensor, "*any row column"]) -> Float[Tensor, "*any"]:
    r"""Return the share of a square matrix that is antisymmetric, :math:`\|A - A^T\|_F^2 / (4\|A\|_F^2)`, 0 to 1.

    >>> asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])), asymmetry(torch.eye(2))
    (tensor(0.5000), tensor(0.))
    """
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"matrix must be square in its last two axes, got {tuple(matrix.shape)}")
    return (matrix - matrix.mT).square().sum((-1, -2)) / (4 * matrix.square().sum((-1, -2)))


def total_variation(p: Float[Tensor, "*any key"], q: Float[Tensor, "*any key"]) -> Float[Tensor, "*any"]:
    """Return the share of a row's attention that moved between two maps: half the summed difference, 0 to 1.

    >>> total_variation(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    tensor(0.5000)
    """
    return (p - q).abs().sum(-1) / 2
