"""Singular values of a head's maps, and of a product of tall factors ``A B^T`` without forming it.

A head's ``W_Q W_K^T`` is 768 x 768 of rank 64; its 64 singular values are had from 64 x 64 matrices. Fast by Gram
matrices in float64; where these lose too many digits, by QR.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.signatures import checked

EPS = torch.finfo(torch.float64).eps

Factor = Float[Tensor, "head model channel"]


@checked(mixed=True)
def product_singular_values(
    A: Float[Tensor, "*batch row channel"], B: Float[Tensor, "*batch column channel"], *, accuracy: float = 1e-7
) -> Float[Tensor, "*batch channel"]:
    r"""Return the singular values of ``A B^T``, largest first, for each matrix of a batch.

    .. math::  \sigma^2(AB^\top) = \lambda(L^\top B^\top B\, L), \qquad A^\top A = L L^\top

    Parameters
    ----------
    A, B
        Factors with at least as many rows as channels; float32 or float64. Computed in float64.
    accuracy
        The relative error allowed in the smallest value. A matrix for which Gram matrices, which square condition
        numbers, cannot promise it goes through QR instead (:func:`by_qr`), whose error is about
        ``1e-16 |A| |B| / sigma``.

    Returns
    -------
    Tensor
        ``channel`` values for each matrix, float64. The other singular values of ``A B^T`` are zero.

    Raises
    ------
    ValueError
        If the shapes do not fit, a factor is wider than tall or of another type, an entry is not finite, or
        ``accuracy`` is not positive.

    Notes
    -----
    McCormick, "Refactoring the attention equations: patterns and messages", sections 3 and 4.

    Examples
    --------
    >>> A = torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> product_singular_values(A, torch.eye(2))
    tensor([3., 1.], dtype=torch.float64)
    """
    if not accuracy > 0:
        raise ValueError(f"accuracy must be a positive relative error, got {accuracy}")
    *batch, _, channel = A.shape
    if min(A.shape[-2], B.shape[-2]) < channel:
        raise ValueError(
            f"A and B must have at least as many rows as channels, got {tuple(A.shape)} and {tuple(B.shape)}"
        )
    A, B = A.reshape(-1, *A.shape[-2:]), B.reshape(-1, *B.shape[-2:])
    values, error = by_gram(A, B)
    doubtful = ~(error <= accuracy)
    if doubtful.any():
        values = values.index_put((doubtful,), by_qr(A[doubtful], B[doubtful]))
    return values.reshape(*batch, channel)


def by_gram(
    A: Float[Tensor, "matrix row channel"], B: Float[Tensor, "matrix column channel"]
) -> tuple[Float[Tensor, "matrix channel"], Float[Tensor, " matrix"]]:
    r"""Return singular values by Gram matrices, and an estimate of the relative error of the smallest.

    The estimate is ``eps |A|^2 |B|^2 / smallest^2`` in Frobenius norms: a rounding of ``A^T A`` by ``eps |A|^2`` moves
    the eigenvalues of ``B (A^T A) B^T`` by at most ``|B|^2`` times that. Infinite where there is no Cholesky factor,
    and where squares overflow.
    """
    gram_A, gram_B = _gram(A), _gram(B)
    overflowed = torch.zeros(len(A), dtype=torch.bool, device=A.device)
    for name, factor, gram in (("A", A, gram_A), ("B", B, gram_B)):
        bad = ~torch.isfinite(gram).all(-1).all(-1)
        if bad.any():
            if not torch.isfinite(factor).all():
                raise ValueError(f"{name} holds entries that are not finite (nan or inf)")
            gram[bad] = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
            overflowed |= bad
    L, failed = torch.linalg.cholesky_ex(gram_A)
    squares = torch.linalg.eigvalsh(_sandwich(L, gram_B)).flip(-1).clamp_min(0)
    norms = torch.stack([g.diagonal(dim1=-2, dim2=-1).sum(-1) for g in (gram_A, gram_B)]).prod(0)
    error = EPS * norms / squares[:, -1]
    return squares.sqrt(), error.masked_fill((failed > 0) | ~torch.isfinite(error) | overflowed, torch.inf)


def _gram(A: Tensor) -> Tensor:
    """Return ``A^T A`` in float64; on a CPU one matrix after another, so that the copy stays in the cache."""
    if A.device.type != "cpu" or A.requires_grad:
        return A.double().mT @ A.double()
    gram = np.empty((A.shape[0], A.shape[-1], A.shape[-1]))
    for matrix, place in zip(A.numpy(), gram):
        wide = matrix.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # looked for by the caller
            np.matmul(wide.T, wide, out=place)  # numpy sees that the two are one and computes half of it
    return torch.from_numpy(gram)


def _sandwich(L: Tensor, G: Tensor) -> Tensor:
    """Return ``L^T G L``; on a CPU numpy's products of small matrices take a third of torch's time."""
    if L.device.type != "cpu" or L.requires_grad or G.requires_grad:
        return L.mT @ G @ L
    left, middle = L.numpy(), G.numpy()
    return torch.from_numpy(left.transpose(0, 2, 1) @ (middle @ left))


@checked
def triangular_factor(W: Float[Tensor, "*any row column"]) -> Float[Tensor, "*any rank column"]:
    """Return R of ``W = QR``; Q is computed only where a gradient needs it.

    >>> triangular_factor(torch.tensor([[3.0], [4.0]])).abs()
    tensor([[5.]])
    """
    return torch.linalg.qr(W, mode="reduced" if W.requires_grad and torch.is_grad_enabled() else "r").R


def by_qr(
    A: Float[Tensor, "matrix row channel"], B: Float[Tensor, "matrix column channel"]
) -> Float[Tensor, "matrix channel"]:
    """Return singular values through ``A = Q R``: those of ``R_A R_B^T``, no condition number squared."""
    R_A = triangular_factor(A.double())
    R_B = triangular_factor(B.double())
    return torch.linalg.svdvals(R_A @ R_B.mT)


@checked
def augment(
    W: Float[Tensor, "*batch model channel"], b: Float[Tensor, "*batch channel"]
) -> Float[Tensor, "*batch row channel"]:
    """Put a bias under its weights as one more row: ``[W; b]``, which reads ``[x, 1]``.

    ``[W_Q; b_Q] [W_K; b_K]^T`` holds all four parts of a score: content, semi-bias, and the two row constants.

    >>> augment(torch.zeros(2, 1), torch.tensor([7.0]))[:, 0]
    tensor([0., 0., 7.])
    """
    return torch.cat([W, b[..., None, :]], -2)


@checked(finite=True)
def singular_values(W: Factor) -> Float[Tensor, "head least"]:
    """Return each head's singular values, largest first; the first is the most a row can be stretched.

    Examples
    --------
    >>> singular_values(torch.tensor([[[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]]))
    tensor([[4., 3.]])
    """
    return torch.linalg.svdvals(W)


def spectral_norm(W: Factor) -> Float[Tensor, " head"]:
    """Return each head's largest singular value, the most it can stretch any row."""
    return singular_values(W)[:, 0]
