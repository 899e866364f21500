r"""Read the gates in real attention maps: which share of the attention each kind of pattern carries.

A map is taken apart cell by cell. Each row has a background level, the median of what belongs to no pattern; what
lies under it is *closed*, what lies above it is excess. Excess goes to the structure that explains the cell: a line
(a column, or a diagonal at some offset), a block, a point, or a row; what nothing explains is the *residual*. A
structure counts only where independent rows would not make it by chance. Shares sum to 1.

The steps are in :mod:`analysis.maps.gates.segmentation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

from analysis.core.checks import check_tensor
from analysis.core.shapes import say_shapes
from analysis.maps.gates import segmentation

PATTERNS = ("directional", "open", "backward", "forward", "cluster", "instance", "inverse directional")
GATES = (*PATTERNS, "closed", "residual")
"""The order of ``GateReading.scores``; the first seven are patterns."""
SHORTEST = 8  # positions; on shorter maps chance makes whole lines
CELLS = 2**18  # cells worked on at once: bounds the memory


@dataclass(frozen=True)
class GateReading:
    """What the maps were read as; ``*batch`` is whatever stood before ``(query, key)``.

    Attributes
    ----------
    scores
        Share of the attention each gate carries, in the order of ``GATES``; sums to 1.
    columns
        The directional part by key; sums to its score.
    offsets
        The part on lines of constant ``key - query``, at index ``n - 1 + key - query``: open in the middle,
        backward before it, forward after it.
    runs
        The longest unbroken run on each such line, in cells.
    rows
        The inverse directional part by query.
    clustered
        The cluster part by key.
    residual
        What no gate explains, by cell; sums to its score.
    cells
        For each cell the index in ``GATES`` of what takes most of its weight; -1 where a query may not look.
    owned
        Share of rows that give more than a quarter of their attention to patterns.
    """

    scores: Float[Tensor, "*batch gate"]
    columns: Float[Tensor, "*batch key"]
    offsets: Float[Tensor, "*batch offset"]
    runs: Int[Tensor, "*batch offset"]
    rows: Float[Tensor, "*batch query"]
    clustered: Float[Tensor, "*batch key"]
    residual: Float[Tensor, "*batch query key"]
    cells: Int8[Tensor, "*batch query key"]
    owned: Float[Tensor, "*batch"]

    __repr__ = say_shapes

    def score(self, gate: str) -> Float[Tensor, "*batch"]:
        """Return one gate's share of every map."""
        if gate not in GATES:
            raise ValueError(f"gate must be one of {GATES}, got {gate!r}")
        return self.scores[..., GATES.index(gate)]

    def names(self) -> list[str]:
        """Name each map, batch axes flattened: its largest pattern, or ``closed`` or ``residual`` without one.

        A map has a pattern if patterns carry 5 % of its attention or own one of its rows.
        """
        scores, owned = self.scores.reshape(-1, len(GATES)), self.owned.reshape(-1)
        pattern = (scores[:, :7].sum(-1) >= 0.05) | (owned > 0)
        best = torch.where(pattern, scores[:, :7].argmax(-1), 7 + scores[:, 7:].argmax(-1))
        return [GATES[i] for i in best.tolist()]

    def blocks(self, index: tuple[int, ...] = ()) -> list[tuple[range, range]]:
        """List the clusters of one map as (queries, keys), largest first: bounding boxes of touching cells.

        ``index`` picks the map out of the batch, as ``(layer, head)``; one map alone needs none.
        """
        from scipy import ndimage

        labels, count = ndimage.label((self._of_one(index) == GATES.index("cluster")).cpu().numpy())
        boxes = [(range(q.start, q.stop), range(k.start, k.stop)) for q, k in ndimage.find_objects(labels)]
        return sorted(boxes, key=lambda box: -len(box[0]) * len(box[1]))[:count]

    def points(self, index: tuple[int, ...] = ()) -> list[tuple[int, int]]:
        """List the instances of one map as (query, key)."""
        return [tuple(cell) for cell in (self._of_one(index) == GATES.index("instance")).nonzero().tolist()]

    def _of_one(self, index: tuple[int, ...]) -> Tensor:
        index, batch = tuple(index) if isinstance(index, Sequence) else (index,), tuple(self.cells.shape[:-2])
        if len(index) != len(batch) or any(not -size <= i < size for i, size in zip(index, batch, strict=True)):
            raise ValueError(f"index must pick one map of the batch {batch}, got {index}")
        return self.cells[index]


def read_gates(
    attention: Float[Tensor, "*batch query key"], *, causal: bool = False, level: float = 0.05
) -> GateReading:
    r"""Read which gates make up each attention map.

    .. math::  S = \sum_c w_c S_c + \text{residual}, \qquad \sum_c w_c + w_{\text{res}} = 1

    Parameters
    ----------
    attention
        Maps ``(..., query, key)`` whose rows sum to 1, without padding, on any device. Read in their own precision;
        float16 and bfloat16 in float32, with rows made to sum to 1 again.
    causal
        Whether queries see only keys up to their own position. Rows that see one key say nothing and are left out.
    level
        Accepted chance of a structure that is not there, in maps whose rows have their weights at random places,
        independently of each other. Proved for lines, whatever the weights: a run is seen on a column in at most this
        share of maps, and on a diagonal too; beyond runs, a broken line in a quarter and a half of it. Simulated for
        blocks. For points it is an estimate that holds while the tail of the map's weights is near normal and all rows
        have it: on other rows points can be seen in nearly every map, and a true one missed (the page on the detector
        tabulates both).

    Returns
    -------
    GateReading
        Shares by gate, with the columns, offsets, runs and rows that carry them.

    Raises
    ------
    TypeError
        If ``attention`` is not a tensor of real floating-point numbers.
    ValueError
        If the maps are not square, have fewer than 8 positions, are not finite, or have rows that do not sum to 1
        (or look ahead though ``causal``).

    Notes
    -----
    Time and memory are proportional to ``n^2`` for a map. Exact on the ideal gates and on their mixtures as long as a
    line is long enough to be told from chance (about ``ln(n^2/level) / ln n`` cells), a block of ``m`` cells
    that takes a share ``p`` of what each row sees, at most three quarters, can be told from chance
    (``m ln(1/p) >= 1.2 ln(n)^2 ln(1/level)``), and fewer than a quarter of the rows hold points. A column of a block
    over nine tenths of what sees it counts as a column, and rows of a causal map that see fewer than 16 keys have no
    points. The decomposition itself is a convention: ``S_ME`` is also a mean of columns.
    The gates are those of "The geometry of BERT", section 4.

    Examples
    --------
    >>> from analysis.maps.gates import directional, open_gate
    >>> reading = read_gates(0.75 * directional(8, 2) + 0.25 * open_gate(8))
    >>> [round(reading.score(gate).item(), 6)
    ...  for gate in ("directional", "open", "closed")]
    [0.75, 0.25, 0.0]
    >>> reading.columns.argmax().item()
    2
    """
    attention = _check(attention, causal, level)
    batch, n = attention.shape[:-2], attention.shape[-1]
    maps = attention.reshape(-1, n, n)
    size = max(1, CELLS // n**2)
    parts = [segmentation.read(chunk, causal, level) for chunk in maps.split(size)]
    merged = {f.name: torch.cat([part[f.name] for part in parts]) for f in fields(GateReading)}
    return GateReading(**{name: tensor.reshape((*batch, *tensor.shape[1:])) for name, tensor in merged.items()})


def shuffle_rows(
    attention: Float[Tensor, "*batch query key"], generator: torch.Generator, *, causal: bool = False
) -> Float[Tensor, "*batch query key"]:
    """Give each row's weights new places at random, among the keys it sees: the permutation null of ``read_gates``.

    What is read into such maps is what chance makes of weights of these sizes.

    >>> shuffle_rows(torch.tensor([[1.0, 0.0], [0.25, 0.75]]), torch.Generator(),
    ...              causal=True)[0]
    tensor([1., 0.])
    """
    check_tensor("attention", attention)
    if attention.ndim < 2 or not attention.is_floating_point():
        raise ValueError(
            f"attention must be (..., query, key) of a floating type, got {tuple(attention.shape)} of {attention.dtype}"
        )
    order = torch.rand(attention.shape, generator=generator).to(attention.device)
    if causal:
        order = order + torch.ones(attention.shape[-2:], device=attention.device).triu(1)  # what is not seen stays last
    return attention.gather(-1, order.argsort(-1))


def _check(attention: Tensor, causal: bool, level: float) -> Tensor:
    """Raise for what is not a batch of attention maps; return it in a precision to compute in."""
    if not isinstance(attention, Tensor) or not attention.is_floating_point():
        form = f"a tensor of {attention.dtype}" if isinstance(attention, Tensor) else type(attention).__name__
        raise TypeError(
            f"attention must be a torch tensor of floating-point weights (torch.as_tensor makes one), got {form}"
        )
    if (
        attention.ndim < 2
        or attention.shape[-1] != attention.shape[-2]
        or attention.shape[-1] < SHORTEST
        or attention.numel() == 0
    ):
        raise ValueError(
            f"attention must be (..., n, n) with n at least {SHORTEST} (on shorter maps no line can be "
            f"told from chance), got {tuple(attention.shape)}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    half = attention.dtype in (torch.float16, torch.bfloat16)
    attention = attention.float() if half else attention
    sums = attention.sum(-1, keepdim=True)
    if not torch.isfinite(sums).all() or (sums - 1).abs().max() > (0.02 if half else 1e-3) or attention.min() < 0:
        raise ValueError(
            "attention must be finite and non-negative with rows that sum to 1 "
            f"(row sums lie in {sums.min().item():.4g}..{sums.max().item():.4g}): "
            "cut padding off and give weights after the softmax"
        )
    if causal and attention.triu(1).max() > 1e-6:
        raise ValueError("attention looks ahead (weight above the diagonal): read it with causal=False")
    return attention / sums if half else attention
