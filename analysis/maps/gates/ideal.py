r"""The ideal gates: attention maps that hold one pattern and nothing else.

Three rules make them ("The geometry of BERT", section 4, whose equations are cited below by number). An entry of the
pattern is as large as it can be: 1, or :math:`1/k` where ``k`` share a row. Other entries of such a row are 0. Rows
without the pattern are uniform. Positions count from 0 here and from 1 in the document. Each builder returns
``(position, position)`` rows that sum to 1; with ``causal`` the uniform rows are uniform over the keys that a query may
see. What was printed otherwise than it must be is in ``printed_ends`` and ``printed_block``. Finding gates in real maps
is ``analysis.maps.gates.reader``.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Map = Float[Tensor, "query key"]


def closed(n: int, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Map:
    r"""Build the closed gate ``S_ME``: every row uniform, entropy :math:`\ln n` (4.13).

    >>> closed(2)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)
    >>> closed(2, causal=True)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    ones = torch.ones(n, n, dtype=dtype)
    ones = ones.tril() if causal else ones
    return ones / ones.sum(-1, keepdim=True)


def directional(n: int, column: int, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Map:
    r"""Build the directional gate ``S_V``: every query attends to key ``column`` alone (4.1).

    :math:`S V = \mathbf 1 (v^{c})^\top` has rank 1. With ``causal``, queries before ``column`` are uniform.

    >>> directional(3, 1)
    tensor([[0., 1., 0.],
            [0., 1., 0.],
            [0., 1., 0.]], dtype=torch.float64)
    """
    _check(n, column=column)
    rows = range(column if causal else 0, n)
    return _point(closed(n, causal=causal, dtype=dtype), rows, [column] * len(rows))


def open_gate(n: int, *, dtype: torch.dtype = torch.float64) -> Map:
    """Build the open gate ``S_D``: the identity, every query attends to itself (4.3).

    >>> open_gate(2)
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    return torch.eye(n, dtype=dtype)


def backward(n: int, offset: int, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Map:
    r"""Build the backward contextual gate ``S_sD``: query ``q`` attends to ``q - offset`` (4.5).

    The first ``offset`` rows have no such key and are uniform. The document writes :math:`S_{sD}^{(j)}` with
    ``j = offset + 1``: its shift is ``j - 1`` positions, not ``j``.

    >>> backward(3, 1)
    tensor([[0.3333, 0.3333, 0.3333],
            [1.0000, 0.0000, 0.0000],
            [0.0000, 1.0000, 0.0000]], dtype=torch.float64)
    """
    _check_offset(n, offset)
    return _point(closed(n, causal=causal, dtype=dtype), range(offset, n), range(n - offset))


def forward(n: int, offset: int, *, dtype: torch.dtype = torch.float64) -> Map:
    r"""Build the forward contextual gate ``S_SD``: query ``q`` attends to ``q + offset`` (4.7).

    The last ``offset`` rows are uniform; the document's ``j`` is ``offset + 1``. A causal map has no such gate.

    >>> forward(3, 1)
    tensor([[0.0000, 1.0000, 0.0000],
            [0.0000, 0.0000, 1.0000],
            [0.3333, 0.3333, 0.3333]], dtype=torch.float64)
    """
    _check_offset(n, offset)
    return _point(closed(n, dtype=dtype), range(n - offset), range(offset, n))


def cluster(n: int, queries: range, keys: range, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Map:
    r"""Build the cluster ``S_B``: ``queries`` attend evenly to ``keys``, each with weight :math:`1/k` (4.9).

    ``k`` is the number of keys (with ``causal``: of keys that the query sees; rows that see none are uniform).

    >>> cluster(3, range(0, 2), range(1, 3))
    tensor([[0.0000, 0.5000, 0.5000],
            [0.0000, 0.5000, 0.5000],
            [0.3333, 0.3333, 0.3333]], dtype=torch.float64)
    """
    for name, span in (("queries", queries), ("keys", keys)):
        if not span or span.step != 1 or span.start < 0 or span.stop > n:
            raise ValueError(f"{name} must be a non-empty range of step 1 within 0..{n}, got {span}")
    gate = closed(n, causal=causal, dtype=dtype)
    for query in queries:
        visible = [key for key in keys if not causal or key <= query]
        if visible:
            gate[query] = 0
            gate[query, visible] = 1 / len(visible)
    return gate


def inverse_directional(
    n: int, query: int, keys: Sequence[int], *, causal: bool = False, dtype: torch.dtype = torch.float64
) -> Map:
    r"""Build the inverse directional gate ``S_H``: one query attends evenly to a few ``keys`` (4.15).

    It is the mean of the instance gates of those keys (section 4.9).

    >>> inverse_directional(3, 0, [0, 2])
    tensor([[0.5000, 0.0000, 0.5000],
            [0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333]], dtype=torch.float64)
    """
    _check(n, query=query, **{f"keys[{i}]": key for i, key in enumerate(keys)})
    if not keys or len(set(keys)) != len(keys):
        raise ValueError(f"keys must be distinct and at least one, got {list(keys)}")
    if causal and max(keys) > query:
        raise ValueError(f"a causal query {query} cannot see key {max(keys)}")
    gate = closed(n, causal=causal, dtype=dtype)
    gate[query] = 0
    gate[query, list(keys)] = 1 / len(keys)
    return gate


def instance(n: int, query: int, key: int, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Map:
    """Build the instance gate ``S_P``: one query attends to one key, all other rows are uniform (4.11).

    >>> instance(2, 0, 1)
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    return inverse_directional(n, query, [key], causal=causal, dtype=dtype)


def printed_ends(equation: str, n: int, j: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and last cell of a contextual gate as its printed labels put them, counted from 1.

    The labels of (4.5) are row ``j`` and column ``n - j``; those of (4.7) are column ``j`` and row ``j``. A diagonal
    needs as many rows as columns between its ends: neither does in general.

    >>> printed_ends("4.5", n=6, j=3)
    ((3, 1), (6, 3))
    >>> printed_ends("4.7", n=6, j=3)
    ((1, 3), (3, 6))
    """
    ends = {"4.5": ((j, 1), (n, n - j)), "4.7": ((1, j), (j, n))}
    if equation not in ends:
        raise ValueError(f"equation must be one of {sorted(ends)}, got {equation!r}")
    return ends[equation]


def printed_block(n: int, i: int, j: int, k: int) -> Map:
    """Build (4.9) by its printed labels, counted from 1: columns ``i..i+k``, rows ``j..j+k``, entries ``1/k``.

    Those are ``k + 1`` columns, so its rows sum to ``(k + 1)/k``.

    >>> printed_block(4, 1, 1, 2)[0].sum()
    tensor(1.5000, dtype=torch.float64)
    """
    _check(n, **{"i + k - 1": i + k - 1, "j + k - 1": j + k - 1, "i - 1": i - 1, "j - 1": j - 1})
    gate = closed(n)
    gate[j - 1 : j + k] = 0
    gate[j - 1 : j + k, i - 1 : i + k] = 1 / k
    return gate


def _point(gate: Tensor, queries: Sequence[int], keys: Sequence[int]) -> Tensor:
    rows, columns = torch.as_tensor(list(queries)), torch.as_tensor(list(keys))
    gate[rows] = 0
    gate[rows, columns] = 1
    return gate


def _check(n: int, **positions: int) -> None:
    for name, position in positions.items():
        if not 0 <= position < n:
            raise ValueError(f"{name} must lie in 0..{n - 1}, got {position}")


def _check_offset(n: int, offset: int) -> None:
    if not 1 <= offset < n:
        raise ValueError(f"offset must lie in 1..{n - 1} (0 is the open gate), got {offset}")
