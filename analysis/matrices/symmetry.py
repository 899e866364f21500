"""What Q and K compare: the form ``M = W_Q W_K^T``, its signs, and where the asymmetry of attention comes from.

A head compares row ``x`` with row ``y`` by ``x M y^T``. Everything here is computed from the factors, so nothing
of size ``model x model`` is ever formed.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual, Scores
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked
from analysis.matrices.spectra import triangular_factor
from analysis.transformer.attention import compute_scores

Factor = Float[Tensor, "head model channel"]
BIASES = ("b_Q", "b_K", "b_V", "b_O")


@dataclass(frozen=True)
class SymmetricSignature:
    """The symmetric part of ``M = W_Q W_K^T``, by its eigenvalues, and how much of ``M`` is not symmetric.

    Attributes
    ----------
    eigenvalues
        ``(head, at most 2 channel)``, ascending: those that can differ from 0.
    positive, negative
        How many of them lie clearly above and below 0 in each head.
    antisymmetric
        Share of ``|M|_F^2`` in ``(M - M^T) / 2``: 0 for a symmetric form (zero too), 1/2 expected of unrelated factors.
    """

    eigenvalues: Float[Tensor, "head eigenvalue"]
    positive: Int[Tensor, " head"]
    negative: Int[Tensor, " head"]
    antisymmetric: Float[Tensor, " head"]


@checked(finite=True)
def symmetric_signature(W_Q: Factor, W_K: Factor) -> SymmetricSignature:
    r"""Find the signature of :math:`(M + M^T)/2` and the antisymmetric share of M from the factors alone.

    With ``[W_Q W_K] = U R`` (QR), the symmetric part is ``U (R J R^T / 2) U^T`` where ``J`` swaps the two halves,
    so a problem of size ``2 channel`` has all its non-zero eigenvalues.

    Notes
    -----
    "The geometry of BERT", section 3.1. Computed in float64.
    An eigenvalue counts as 0 below ``size * 2.2e-16`` of the largest.

    Examples
    --------
    ``M = e_1 e_2^T``: one positive and one negative direction, and half of M is antisymmetric.

    >>> form = symmetric_signature(torch.tensor([[[1.0], [0.0]]]),
    ...                            torch.tensor([[[0.0], [1.0]]]))
    >>> form.eigenvalues.tolist(), form.antisymmetric.tolist()
    ([[-0.5, 0.5]], [0.5])
    """
    W_Q, W_K = W_Q.double(), W_K.double()
    R = triangular_factor(torch.cat([W_Q, W_K], dim=-1))
    left, right = R.chunk(2, dim=-1)
    M = left @ right.mT
    eigenvalues = torch.linalg.eigvalsh((M + M.mT) / 2)
    zero = eigenvalues.abs().amax(1, keepdim=True) * max(W_Q.shape[1:]) * torch.finfo(torch.float64).eps
    return SymmetricSignature(eigenvalues, (eigenvalues > zero).sum(1), (eigenvalues < -zero).sum(1), asymmetry(M))


def without(weights: AttentionLayer, *biases: str) -> AttentionLayer:
    """Return the layer with the named biases (``"b_Q"``, ``"b_K"``, ``"b_V"``, ``"b_O"``) set to zero."""
    if unknown := [name for name in biases if name not in BIASES]:
        raise ValueError(f"biases must be among {', '.join(BIASES)}, got {', '.join(map(str, unknown))}")
    return replace(weights, **{name: torch.zeros_like(getattr(weights, name)) for name in biases})


@checked(finite=True)
def score_variants(x: Residual, weights: AttentionLayer) -> dict[str, Scores]:
    """Compute scores for four forms that differ in what could make them asymmetric.

    ``as trained``; ``content alone`` (no biases); ``symmetric part of M``: content with ``(M + M^T) / 2``, indefinite;
    ``positive form``: content with ``W_K`` in place of ``W_Q``, so that ``M`` is positive semidefinite.

    Notes
    -----
    "The geometry of BERT", section 3.1.
    """
    weights = weights.plain()
    bare = without(weights, "b_Q", "b_K")
    content = compute_scores(x, bare)
    return {
        "as trained": compute_scores(x, weights),
        "content alone": content,
        "symmetric part of M": (content + content.mT) / 2,
        "positive form": compute_scores(x, replace(bare, W_Q=weights.W_K)),
    }


@checked(finite=True)
def equalise_norms(x: Residual) -> Residual:
    """Give every row the mean length, so that only its direction is left.

    Raises
    ------
    TypeError, ValueError
        If a row is zero (it has no direction), or ``x`` is not of finite floating numbers.

    Examples
    --------
    >>> equalise_norms(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    tensor([[2., 0.],
            [0., 2.]])
    """
    length = x.norm(dim=-1, keepdim=True, dtype=torch.float64).to(x.dtype)  # squares may vanish in float32
    if not (length > 0).all():
        raise ValueError("x has a row of zeros, which has no direction")
    return x / length * length.mean(-2, keepdim=True)


@checked(finite=True)
def asymmetry(matrix: Float[Tensor, "*any side side"]) -> Float[Tensor, "*any"]:
    r"""Return the share of a square matrix that is antisymmetric, :math:`\|A - A^T\|_F^2 / (4\|A\|_F^2)`, 0 to 1.

    A matrix of zeros is symmetric: 0.

    Examples
    --------
    >>> asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])), asymmetry(torch.eye(2))
    (tensor(0.5000), tensor(0.))
    """
    matrix, _ = scale_to_one(matrix, (-1, -2))
    whole = 4 * matrix.square().sum((-1, -2))
    return (matrix - matrix.mT).square().sum((-1, -2)) / torch.where(whole > 0, whole, 1)
