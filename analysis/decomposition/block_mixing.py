"""Which of a row's blocks a function mixes: coupling, interaction, and what a sum of separate parts explains."""

from collections.abc import Callable

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.signatures import checked
from analysis.transformer.head_layout import check_blocks, concatenate, split

Function = Callable[[Tensor], Tensor]


@checked(finite=True)
def block_coupling(function: Function, x: Float[Tensor, "sample model"], blocks: int) -> Float[Tensor, "to source"]:
    r"""Return how much each block of a row's image moves with each block of the row: the exact Jacobian, by blocks.

    Entry (to, source) is the mean over samples of :math:`\lVert \partial f^{(to)}/\partial x^{(source)} \rVert_F^2`.
    A function that keeps blocks apart has a diagonal coupling.

    Parameters
    ----------
    function
        A map of one row of ``model`` numbers to one row of as many.
    blocks
        How many blocks of equal width.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is not a finite float32 or float64 matrix of at least one row, ``blocks`` does not divide its width, or
        the function returns a row of another width.

    Examples
    --------
    >>> block_coupling(lambda row: row.flip(0), torch.ones(1, 2), 2)
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_blocks("x", x.shape[-1], blocks)
    total = torch.zeros(blocks, blocks, dtype=x.dtype, device=x.device)
    for row in x:
        jacobian = torch.func.jacrev(function)(row)
        if jacobian.shape != (x.shape[-1],) * 2:
            raise ValueError(
                f"function must return a row of {x.shape[-1]} numbers, got shape {tuple(jacobian.shape[:-1])}"
            )
        parts = rearrange(jacobian, "(to a) (source b) -> to source a b", to=blocks, source=blocks)
        total = total + parts.square().sum((-1, -2))
    if not total.isfinite().all():
        raise ValueError(f"function has derivatives on x, or squares of them, that are not finite in {x.dtype}")
    return total / len(x)


@checked(finite=True, gradient=False)
def off_diagonal_share(coupling: Float[Tensor, "block block"]) -> float:
    """Return the share of a coupling that crosses from one block to another: 0 apart, ``1 - 1/blocks`` fully mixed.

    Raises
    ------
    TypeError, ValueError
        If the coupling is not a finite square matrix, has a negative entry, or is zero.

    Examples
    --------
    >>> off_diagonal_share(torch.ones(4, 4))
    0.75
    """
    if (coupling < 0).any() or not coupling.any():
        raise ValueError("coupling must have no negative entry, and one that is not 0")
    scaled = coupling / coupling.max()
    return 1 - (scaled.diagonal().sum() / scaled.sum()).item()


@checked(finite=True)
def interaction(
    function: Function,
    a: Float[Tensor, "sample model"],
    b: Float[Tensor, "sample model"],
    blocks: int,
    pair: tuple[int, int],
) -> Float[Tensor, "sample model"]:
    r"""Return the mixed difference of a function in two blocks; 0 for every sum of functions of single blocks.

    :math:`f(a) - f(a|_i) - f(a|_j) + f(a|_{ij})`, where :math:`a|_i` has block i taken from b. If
    :math:`f = \sum_i g_i(x^{(i)})`, as (5.14) of "The geometry of BERT" says of the MLP, each :math:`g_k` occurs twice
    with each sign.

    Examples
    --------
    >>> interaction(lambda x: x.square(), torch.ones(1, 2), torch.zeros(1, 2), 2,
    ...             (0, 1))
    tensor([[0., 0.]])
    >>> interaction(lambda x: x * x.flip(-1), torch.ones(1, 2), torch.zeros(1, 2), 2,
    ...             (0, 1))
    tensor([[1., 1.]])
    """
    check_blocks("a", a.shape[-1], blocks)
    if len(set(pair)) != 2 or not all(0 <= i < blocks for i in pair):
        raise ValueError(f"pair must name two different blocks of 0..{blocks - 1}, got {pair}")

    def taking(*chosen: int) -> Tensor:
        parts = split(a, blocks).clone()
        for i in chosen:
            parts[i] = split(b, blocks)[i]
        return function(concatenate(parts))

    i, j = pair
    return taking() - taking(i) - taking(j) + taking(i, j)


@checked(finite=True, gradient=False)
def additive_share(
    function: Function, rows: Float[Tensor, "sample model"], blocks: int, generator: torch.Generator
) -> float:
    r"""Estimate how much of a function's variance a sum of functions of single blocks can explain at best.

    Blocks are drawn independently from ``rows``; the best additive approximation then has the variance
    :math:`\sum_i \mathrm{Var}\,\mathrm E[f \mid x^{(i)}]` (Sobol), estimated by redrawing all blocks but one.

    Returns
    -------
    float
        1 for additive functions, up to sampling error; what is missing from 1 is interaction.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is not a finite matrix of at least two rows, ``blocks`` does not divide its width, or the function
        is constant (no variance to explain) or not finite on what was drawn.
    """
    check_blocks("rows", rows.shape[-1], blocks)
    if len(rows) < 2:
        raise ValueError(f"rows must be at least two to draw from, got {len(rows)}")

    # Rows whose blocks are drawn independently, twice.
    def draw() -> Tensor:
        n = len(rows)
        picks = torch.randint(n, (blocks, n), generator=generator)
        parts = split(rows, blocks)
        return torch.stack([part[pick] for part, pick in zip(parts, picks, strict=True)])

    first, second = draw(), draw()
    f, g = function(concatenate(first)), function(concatenate(second))
    mean = (f.mean(0) + g.mean(0)) / 2
    variance = ((f - mean).square().mean(0) + (g - mean).square().mean(0)).sum() / 2
    if not variance.isfinite():
        raise ValueError("function has values, or squares of them, that are not finite on these rows")
    if not variance > 0:
        raise ValueError("function is constant on these rows: there is no variance to explain")
    # Sobol's first-order share: exchange one block at a time, and see what goes along with f.
    explained = torch.zeros((), dtype=f.dtype, device=f.device)
    for i in range(blocks):
        mixed = second.clone()
        mixed[i] = first[i]
        explained += ((f - mean) * (function(concatenate(mixed)) - g)).mean(0).sum()
    return (explained / variance).item()


@checked(finite="parts")
def expand_score(
    parts: Float[Tensor, "part position model"],
    W_Q: Float[Tensor, "model channel"],
    W_K: Float[Tensor, "model channel"],
    b_Q: Float[Tensor, " channel"],
    b_K: Float[Tensor, " channel"],
) -> Float[Tensor, "query_part key_part query key"]:
    r"""Write one head's scores, for an input that is a sum of parts, as a table of terms: (5.16) multiplied out.

    With :math:`X = \sum_a X_a`, the query side has the parts :math:`X_a W_Q` and :math:`\mathbf 1 b_Q^\top`, the key
    side likewise, and :math:`Q K^\top` is the sum of all (parts + 1) squared products. The last index on either side
    is the bias.

    Returns
    -------
    Float[Tensor, "query_part key_part query key"]
        Before division by sqrt(channel), as (5.15) has it. Terms whose key part is the same for every key are constant
        along rows and vanish in the softmax ((5.16), (5.17)).

    Examples
    --------
    >>> one = torch.ones(1, 1)
    >>> expand_score(torch.tensor([[[2.0]], [[3.0]]]), one, one, torch.ones(1),
    ...              torch.zeros(1)).flatten(1)
    tensor([[4., 6., 0.],
            [6., 9., 0.],
            [2., 3., 0.]])
    """
    n = parts.shape[1]
    queries = torch.cat([parts @ W_Q, b_Q.expand(1, n, -1)])
    keys = torch.cat([parts @ W_K, b_K.expand(1, n, -1)])
    return einsum(queries, keys, "query_part query channel, key_part key channel -> query_part key_part query key")


@checked(finite=True)
def vanishing(
    terms: Float[Tensor, "query_part key_part query key"], tolerance: float | None = None
) -> Bool[Tensor, "query_part key_part"]:
    """Return which terms of an expansion are constant along every row, and so vanish in the softmax.

    Parameters
    ----------
    terms
        As `expand_score` gives them.
    tolerance
        How far a term may vary along a row and still count as constant, as a share of its own largest entry. Default:
        room for rounding, 1e-9 in float64 and 1e-4 in float32.

    Examples
    --------
    >>> vanishing(torch.tensor([[[[1.0, 1.0]], [[1.0, 2.0]]]]))
    tensor([[ True, False]])
    """
    if tolerance is None:
        tolerance = 1e-9 if terms.dtype == torch.float64 else 1e-4
    if tolerance < torch.finfo(terms.dtype).eps:
        raise ValueError(f"tolerance must not be finer than {terms.dtype}, got {tolerance}")
    spread = (terms.amax(-1) - terms.amin(-1)).amax(-1)
    return spread <= tolerance * terms.abs().amax((-1, -2))
