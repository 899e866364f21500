"""What positions do to scores without turning queries and keys: ALiBi's slopes, buckets, tables, temperatures."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.core.checks import check_fit
from analysis.core.positions import Alibi, Disentangled, RelativeBuckets, Tempered
from analysis.core.signatures import checked


def temperatures(tempered: Tempered, positions: int) -> Float[Tensor, " position"]:
    """Return what the query at each place is multiplied by.

    >>> temperatures(Tempered(2.0, 1.0), 4)
    tensor([1.0000, 1.6931, 1.6931, 2.0986], dtype=torch.float64)
    """
    place = torch.arange(1, positions + 1, dtype=torch.float64)
    return 1 + tempered.strength * torch.log1p(place // tempered.every)


def alibi_slopes(alibi: Alibi, dtype: torch.dtype = torch.float64) -> Float[Tensor, " head"]:
    r"""Return ALiBi's slopes: :math:`2^{-8h/H}` for head ``h = 1..H`` where ``H`` is a power of two.

    For other numbers of heads the slopes of the power of two below come first, then every second one of the power of
    two above.

    References
    ----------
    Press, Smith, Lewis, *Train Short, Test Long* (2022).

    Examples
    --------
    >>> alibi_slopes(Alibi(2))
    tensor([0.0625, 0.0039], dtype=torch.float64)
    >>> alibi_slopes(Alibi(3)) * 256
    tensor([16.,  1., 64.], dtype=torch.float64)
    """

    def slopes(heads: int) -> Tensor:
        return 2.0 ** (-torch.arange(1, heads + 1, dtype=torch.float64) * alibi.exponent / heads)

    below = 2 ** math.floor(math.log2(alibi.heads))
    if below == alibi.heads:
        return slopes(below).to(dtype)
    return torch.cat([slopes(below), slopes(2 * below)[::2]])[: alibi.heads].to(dtype)


@checked
def relative_bucket(
    distance: Int[Tensor, "*any key"], buckets: int, longest: int, two_sided: bool
) -> Int[Tensor, "*any key"]:
    r"""Return T5's bucket for ``key - query``: near distances one each, far ones in buckets that grow geometrically.

    Parameters
    ----------
    distance
        ``key - query``: negative for earlier keys.
    buckets
        How many there are in all; with ``two_sided`` the second half is for later keys.

    References
    ----------
    Raffel et al., T5 (2020), section 2.1.

    Examples
    --------
    >>> relative_bucket(torch.tensor([0, -1, -15, -16, -200, 3]), 32, 128,
    ...                 two_sided=False)
    tensor([ 0,  1, 15, 16, 31,  0])
    >>> relative_bucket(torch.tensor([-1, 1]), 32, 128, two_sided=True)
    tensor([ 1, 17])
    """
    side = torch.zeros_like(distance)
    if two_sided:
        buckets //= 2
        side, away = (distance > 0) * buckets, distance.abs()
    else:
        away = (-distance).clamp(min=0)
    exact = buckets // 2
    # in float32, as the models do it: a distance at a border would otherwise fall into the next bucket
    growth = torch.log(away.clamp(min=1).float() / exact) / math.log(longest / exact) * (buckets - exact)
    far = (exact + growth.to(distance.dtype)).clamp(max=buckets - 1)
    return side + torch.where(away < exact, away, far)


def bucket_scores(positions: RelativeBuckets, queries: int, keys: int) -> Float[Tensor, "head query key"]:
    """Return what a table of buckets adds to the scores of each head.

    >>> bucket_scores(RelativeBuckets(torch.tensor([[5.0], [6.0]]), 8, two_sided=False),
    ...               2, 2)
    tensor([[[5., 5.],
             [6., 5.]]])
    """
    device = positions.table.device
    distance = torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None]
    bucket = relative_bucket(distance, len(positions.table), positions.longest, positions.two_sided)
    return positions.table[bucket].permute(2, 0, 1)


@checked
def disentangled_scores(
    queries: Float[Tensor, "*batch head position channel"],
    keys: Float[Tensor, "*batch head position channel"],
    positions: Disentangled,
) -> Float[Tensor, "*batch head position position"]:
    r"""Return DeBERTa's two parts, not yet scaled: ``q_i K_r + Q_r k_j`` for the row ``r`` of distance ``i - j``.

    References
    ----------
    He et al., DeBERTa (2021), equation 4.
    """
    for name, table in (("positions.keys", positions.keys), ("positions.queries", positions.queries)):
        if table is not None:
            check_fit(name, table, (*table.shape[:-1], queries.shape[-1]), "queries", queries)
    # i - j, in buckets where the model has them.
    place = torch.arange(queries.shape[-2], device=queries.device)
    distance = place[:, None] - place
    if positions.buckets:
        distance = _log_bucket(distance, positions.buckets, positions.longest)
    # The query meets a key of the distance, then the key meets a query of the distance.
    total = torch.zeros((), dtype=queries.dtype, device=queries.device)
    if positions.keys is not None:
        row = (distance + positions.span).clamp(0, 2 * positions.span - 1)
        met = queries @ positions.keys.mT
        total = total + met.gather(-1, row.expand(*met.shape[:-1], -1))
    if positions.queries is not None:
        row = (positions.span - distance).clamp(0, 2 * positions.span - 1)
        met = keys @ positions.queries.mT
        total = total + met.gather(-1, row.expand(*met.shape[:-1], -1)).mT
    return total


def _log_bucket(distance: Int[Tensor, "query key"], buckets: int, longest: int) -> Int[Tensor, "query key"]:
    """Return DeBERTa's signed bucket: distances up to half the buckets one each, then growing."""
    middle = buckets // 2
    away = torch.where((distance < middle) & (distance > -middle), middle - 1, distance.abs())
    most = torch.log(torch.tensor((longest - 1) / middle))  # in float32, as the models do it: else one bucket more
    growth = torch.log(away / middle) / most.to(away.device) * (middle - 1)
    far = (torch.ceil(growth) + middle) * distance.sign()
    return torch.where(away <= middle, distance, far.to(distance.dtype))
