r"""How much of a row's attention each part of its score explains: the distance from uniform, split along a path.

Turn the scores up from 0 to 1: ``p_t = softmax(t s)`` goes straight from uniform attention to the head's own. On the
way the divergence from uniform grows by what the parts of the score do at each ``t``, and these increments add up.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.checks import check_detached
from analysis.maps.entropy import entropy_of_scores

NODES = 16  # of Gauss and Legendre on each panel
RHO = 3.0  # the size of the ellipse around a panel in which the integrand is analytic
REST = 0.02  # weight of the keys that a panel's bound leaves out
CELLS = 2**17  # cells worked on at once

Rows = Float[Tensor, "*batch key"]
Visible = Bool[Tensor, "*any key"]


@dataclass(frozen=True)
class Attribution:
    """What each part contributes to the divergence of each row from uniform, in nats; parts may be negative."""

    parts: Float[Tensor, "part ..."]
    divergence: Float[Tensor, "*batch"]

    @property
    def gap(self) -> float:
        """The largest difference between the sum of the parts and the divergence computed directly."""
        return float((self.parts.double().sum(0) - self.divergence).abs().max())


def divergence(scores: Rows, visible: Visible | None = None) -> Float[Tensor, "*batch"]:
    r"""Return each row's divergence from uniform attention over the keys that it may see, in nats.

    .. math::  KL(p \,\|\, u) = \sum_j p_j s_j - \log \sum_j e^{s_j} + \log n = \log n - H(p)

    Parameters
    ----------
    scores
        Finite; what they are at keys that a row may not see does not matter.
    visible
        Which keys a row may see (``True``); default all.

    Raises
    ------
    TypeError, ValueError
        As :func:`attribute_divergence`; also if ``scores`` require a gradient, which the integral does not pass on.

    Examples
    --------
    >>> [round(d, 4)
    ...  for d in divergence(torch.tensor([[0.0, 0.0], [0.0, 1000.0]])).tolist()]
    [0.0, 0.6931]
    """
    scores, mask = _check(scores, visible)
    return _divergence(scores.double(), mask).to(scores.dtype)


def attribute_divergence(parts: Float[Tensor, "part *batch key"], visible: Visible | None = None) -> Attribution:
    r"""Attribute each row's divergence from uniform over the parts of its score.

    .. math::

        \phi_k = \int_0^1 t\,\mathrm{Cov}_{p_t}(s, s_k)\,dt = \sum_j (p_j - \bar p_j)\, s_{kj}, \qquad
        p_t = \mathrm{softmax}(ts),\; s = \sum_k s_k

    with :math:`p = p_1` and :math:`\bar p = \int_0^1 p_t\,dt`, the mean attention on the path: an integral by parts,
    after which a part costs one dot product. The :math:`\phi_k` sum to the divergence; a part that is constant along a
    row gets exactly 0; what a part gets does not depend on how the others are cut.

    All this is before rounding. Each part comes back with an error of about ``eps`` of the dtype times its largest
    entry, so large parts that cancel miss the divergence by about ``eps * max |part|``: ``Attribution.gap`` says by how
    much.

    Parameters
    ----------
    parts
        ``(part, ..., key)``: the parts of the scores, in nats, finite everywhere.
    visible
        ``(..., key)``, what a row may see, such as a causal triangle; default all. Parts elsewhere do not matter.

    Returns
    -------
    Attribution
        In the dtype of ``parts``; computed in float64.

    Raises
    ------
    TypeError
        If ``parts`` is not a tensor in float32 or float64, or ``visible`` none of bool.
    ValueError
        If there is no part or no key, ``parts`` require a gradient, which is not computed, an entry is nan or
        infinite (``visible`` marks masked keys, never minus infinity), the mask does not fit one part, a row may see no
        key, or where it sees one the sum of the parts or
        the range of one overflows.

    References
    ----------
    Aumann and Shapley 1974, the value of a game with a continuum of players, here carried over to finitely many parts
    that can be divided; Sundararajan, Taly and Yan 2017, section 3 (integrated gradients of the divergence, from
    scores 0).

    Examples
    --------
    Two equal parts get half each, a constant nothing:

    >>> s = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    >>> split = attribute_divergence(torch.stack([s, s, 0 * s + 7]))
    >>> bool(split.parts[0] == split.parts[1]), split.parts[2].item(), split.gap < 1e-14
    (True, 0.0, True)
    """
    check_detached("parts", parts)
    total, mask = total_score(parts, visible)
    best = total.masked_fill(~mask, -math.inf).argmax(-1, keepdim=True)
    change = _softmax(total, mask) - _path_mean(total, mask)
    rows = []
    for part in parts:  # less its value at the best key, so that constants vanish exactly
        wide = part.double()
        rows.append(((wide - wide.gather(-1, best)).masked_fill(~mask, 0) * change).sum(-1))
    shares = torch.stack(rows)
    if not torch.isfinite(shares).all():
        raise ValueError("a part ranges too far for float64: the difference of two of its entries overflows")
    return Attribution(shares.to(parts.dtype), _divergence(total, mask).to(parts.dtype))


def attribution_density(
    parts: Float[Tensor, "part ..."], t: float, visible: Visible | None = None
) -> Float[Tensor, "part ..."]:
    r"""Return what each part adds at one point of the path: :math:`t\,\mathrm{Cov}_{p_t}(s, s_k)`, nats per unit of t.

    ``t`` runs from 0 to 1; computed in float64. Raises as :func:`attribute_divergence`, and for another ``t``.

    >>> s = torch.tensor([[0.0, 2.0]])
    >>> attribution_density(torch.stack([s, 0 * s]), 0.0)
    tensor([[0.],
            [0.]])
    """
    if not 0 <= t <= 1:
        raise ValueError(f"t must lie between 0 and 1, got {t}")
    total, mask = total_score(parts, visible)
    p = _softmax(t * total, mask)
    weight = p * (total - (p * total).sum(-1, keepdim=True))
    return torch.stack([t * (weight * part.double()).sum(-1) for part in parts]).to(parts.dtype)


def total_score(
    parts: Float[Tensor, "part *batch key"], visible: Visible | None = None
) -> tuple[Rows, Bool[Tensor, "*batch key"]]:
    """Check parts and mask; return the scores in float64, 0 where a row may not look, and the mask in their shape.

    In float32 a sum depends on its order: 1e8 + 2 - 1e8 is 0. Raises as :func:`attribute_divergence`.

    >>> scores, mask = total_score(torch.tensor([[[1e8, 0.0]], [[2.0, 0.0]],
    ...                                          [[-1e8, 0.0]]]))
    >>> scores.tolist(), mask.tolist()
    ([[2.0, 0.0]], [[True, True]])
    """
    if not isinstance(parts, Tensor):
        raise TypeError(f"parts must be a tensor (torch.stack makes one of a list), got {type(parts).__name__}")
    if parts.ndim < 2 or len(parts) == 0:
        raise ValueError(f"parts must be (part, ..., key) with at least one part, got {tuple(parts.shape)}")
    _check(parts, None, "parts")
    _, mask = _check(parts[0], visible)
    total = parts.double().sum(0)
    mask = mask.expand(total.shape)
    total = total.masked_fill(~mask, 0)
    if not torch.isfinite(total).all():
        raise ValueError("parts add up to scores that are not finite: they are too large for float64")
    return total, mask


def path_nodes(reach: float, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights on 0..1 for rows of at most ``keys`` keys whose scores range over at most ``reach``.

    >>> t, w = path_nodes(1.0, 10)
    >>> len(t), bool(abs(w.sum() - 1) < 1e-15)
    (16, True)
    """
    long, high = (RHO + 1 / RHO) / 2, (RHO - 1 / RHO) / 2  # half axes of the ellipse around -1..1
    left_out = math.log(keys / REST)
    edges = [0.0]
    while edges[-1] < 1:
        everywhere = math.pi / 2 / (high * max(reach, 1e-300))
        here = math.pi / 2 * edges[-1] / (high * left_out + math.pi / 2 * (long - 1))
        edges.append(min(1.0, edges[-1] + 2 * max(everywhere, here)))
    x, w = np.polynomial.legendre.leggauss(NODES)
    start, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (start + width * (x + 1) / 2).ravel(), (width * w / 2).ravel()


def _path_mean(scores: Tensor, mask: Tensor) -> Tensor:
    r"""Return the mean attention on the path: rows of like range at once, of finite scores in float64.

    Gauss-Legendre quadrature on panels whose width follows from where :math:`Z(t) = \sum_j e^{ts_j}` can vanish. For
    complex ``t = a + ib``, with ``R`` the range of the row's scores, it does not where ``|b| <= (pi/2) / R``, because
    all terms then lie in a quarter of the plane. Nor does it where ``|b| <= (pi/2) a / L`` with ``L = log(n / REST)``:
    the keys that are more than ``L / a`` below the best have together less than ``REST`` of its weight, and the others
    lie in a quarter of the plane. Around each panel an ellipse of parameter ``RHO`` fits into one of these regions, and
    the mean of a quantity of range ``r`` is there at most ``1.49 r / 2``. So by the theorem on Gauss quadrature of
    analytic functions (Trefethen 2013, theorem 19.3) the mean of such a quantity along the path is right to
    ``1e-14 r``, whatever the scores, before rounding. Panels grow in proportion to ``t``: their number grows like
    ``L log R``.
    """
    keys = scores.shape[-1]
    rows = scores.masked_fill(~mask, -math.inf).reshape(-1, keys)
    rows = rows - rows.amax(-1, keepdim=True)
    reach = -rows.masked_fill(rows == -math.inf, 0).amin(-1)
    if torch.isinf(reach).any() or (rows == -math.inf).sum() > (~mask).expand(scores.shape).sum():
        raise ValueError("scores range too far for float64: the difference of two of them overflows")
    bins = (2 * (reach / 2).clamp_min(1).log2()).ceil()
    mean = torch.empty_like(rows)
    for b in bins.unique().tolist():
        nodes = path_nodes(2 * 2 ** (b / 2) * (1 + 1e-9), keys)
        for index in (bins == b).nonzero()[:, 0].split(max(1, CELLS // keys)):
            mean[index] = _integrate(rows[index], *nodes)
    return mean.reshape(scores.shape)


def _integrate(rows: Tensor, nodes: np.ndarray, weights: np.ndarray) -> Tensor:
    total, power = torch.zeros_like(rows), torch.empty_like(rows)
    for t, w in zip(nodes.tolist(), weights.tolist()):
        torch.mul(rows, t, out=power).exp_()
        total += power * (w / power.sum(-1, keepdim=True))
    return total


def _softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


def _divergence(scores: Tensor, mask: Tensor) -> Tensor:
    bare = scores.masked_fill(~mask, -math.inf)
    bare = bare - bare.amax(-1, keepdim=True)
    return (mask.expand(scores.shape).sum(-1).double().log() - entropy_of_scores(bare)).clamp_min(0)


def _check(scores: Tensor, visible: Tensor | None, name: str = "scores") -> tuple[Tensor, Tensor]:
    """Raise for what has no split; return the scores and the mask in a shape that broadcasts."""
    if not isinstance(scores, Tensor) or scores.dtype not in (torch.float32, torch.float64):
        actual = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"{name} must be a tensor in float32 or float64, got {actual}")
    if scores.ndim < 1 or scores.numel() == 0:
        raise ValueError(f"{name} must be (..., key) with at least one row and one key, got {tuple(scores.shape)}")
    if not torch.isfinite(scores).all():
        raise ValueError(f"{name} hold nan or infinity: visible marks the keys that a row may not see, not -inf")
    if visible is None:
        return scores, torch.ones(scores.shape[-1], dtype=torch.bool, device=scores.device)
    if not isinstance(visible, Tensor) or visible.dtype != torch.bool:
        actual = visible.dtype if isinstance(visible, Tensor) else type(visible).__name__
        raise TypeError(f"visible must be a tensor of bool, got {actual}")
    ends = tuple(scores.shape[scores.ndim - visible.ndim :]) if visible.ndim <= scores.ndim else None
    if (
        visible.ndim < 1
        or ends is None
        or any(v not in (1, s) for v, s in zip(visible.shape, ends))
        or visible.shape[-1] != scores.shape[-1]
    ):
        raise ValueError(f"visible must fit the last axes of scores {tuple(scores.shape)}, got {tuple(visible.shape)}")
    if not visible.any(-1).all():
        raise ValueError("visible leaves a row without any key")
    return scores, visible
