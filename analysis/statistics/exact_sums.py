r"""Sums that come out the same to the last bit in whatever order, and on however many processes, they are added.

Numbers are kept as whole ones, in units of ``1/UNIT``; what has no such form, and sums that outgrow it, raise.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from analysis.core.checks import check_tensor

UNIT = 2.0**32
"""One in fixed point: sums are multiples of ``1/UNIT``, exact up to 2 billion; beyond that they raise."""
LARGEST = 2.0**31


def fixed(values: Tensor) -> Int[Tensor, "..."]:
    """Turn numbers into fixed point.

    Raises
    ------
    ValueError
        If a number is nan, or not below 2 billion in size: it has no fixed point, and would silently become another.

    Examples
    --------
    >>> fixed(torch.tensor([0.5])).item() / UNIT
    0.5
    """
    check_tensor("values", values)
    values = values.double()
    low, high = torch.stack(values.aminmax()).tolist() if values.numel() else (0, 0)  # both nan if one number is
    if not -LARGEST < low <= high < LARGEST:
        worst = values.flatten()[values.flatten().abs().nan_to_num(math.inf).argmax()].item()
        raise ValueError(
            f"values, what is counted, must be finite and below {LARGEST:.0f} in size, got {worst}: the "
            "attention that it is taken from holds nan or inf, or the numbers need another unit"
        )
    return (values * UNIT).round_().long()


def add(total: Int[Tensor, "*any"], more: Int[Tensor, "*any"]) -> Tensor:
    """Add in place; return whether a sum went beyond what 64 bits hold (as a tensor, so that a GPU need not wait)."""
    check_tensor("total", total)
    check_tensor("more", more)
    if total.dtype != torch.int64 or more.dtype != torch.int64 or total.shape != more.shape:
        raise ValueError(
            f"total and more must be int64 of one shape, got {tuple(total.shape)} of {total.dtype} and "
            f"{tuple(more.shape)} of {more.dtype}"
        )
    before = total.clone()
    total += more
    return (((before ^ total) & (more ^ total)) < 0).any()


def refuse_overflow(*flags: Tensor) -> None:
    """Raise ``OverflowError`` if one of the additions overflowed, as their flags tell."""
    if torch.stack(flags).any():
        raise OverflowError(
            f"a sum went beyond {LARGEST:.0f}: these sums are lost; count in more than one object, or in a larger unit"
        )


class Sums:
    """Named whole-number sums that can be merged in any order, and across processes. Subclasses fill them.

    ``state`` maps names to int64 tensors; nothing else is carried.
    """

    state: dict[str, Tensor]

    def merge(self, other: "Sums") -> "Sums":
        """Add another's sums to these; both must have the same names and shapes, or nothing is added."""
        here, there = ({name: tuple(total.shape) for name, total in sums.state.items()} for sums in (self, other))
        for name in dict.fromkeys((*here, *there)):
            if here.get(name) != there.get(name):
                raise ValueError(
                    f"cannot merge: {name} has shape {here.get(name, 'none (absent)')} here and "
                    f"{there.get(name, 'none (absent)')} there"
                )
        refuse_overflow(*(add(total, other.state[name].to(total.device)) for name, total in self.state.items()))
        return self

    def all_reduce(self) -> "Sums":
        """Add the sums of all processes of ``torch.distributed``; without a process group nothing happens."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            bound = torch.stack([total.double().abs().max() for total in self.state.values()])
            dist.all_reduce(bound)
            refuse_overflow(bound >= LARGEST * UNIT)
            for total in self.state.values():
                dist.all_reduce(total)
        return self


class Moments(Sums):
    """Count, sum and sum of squares of equal-shaped tensors: mean and spread over texts.

    >>> moments = Moments((2,))
    >>> moments.add(torch.tensor([1.0, 2.0]))
    >>> moments.add(torch.tensor([3.0, 2.0]))
    >>> moments.mean().tolist(), [round(x, 6) for x in moments.deviation().tolist()]
    ([2.0, 2.0], [1.414214, 0.0])
    """

    def __init__(self, shape: Sequence[int], device: torch.device | str = "cpu"):
        """Start with nothing counted."""
        self.state = {
            "count": torch.zeros((), dtype=torch.long, device=device),
            "sum": torch.zeros(tuple(shape), dtype=torch.long, device=device),
            "square": torch.zeros(tuple(shape), dtype=torch.long, device=device),
        }

    def add(self, values: Tensor) -> None:
        """Count one more tensor.

        Raises
        ------
        ValueError
            If it has another shape than was announced, or holds a number that is nan or above 46,340 in size, whose
            square has no fixed point.
        OverflowError
            If a sum grows beyond 2 billion.
        """
        check_tensor("values", values)
        if values.shape != self.state["sum"].shape:
            raise ValueError(f"values must have shape {tuple(self.state['sum'].shape)}, got {tuple(values.shape)}")
        total, square = fixed(values), fixed(values.double().square())
        self.state["count"] += 1
        refuse_overflow(add(self.state["sum"], total), add(self.state["square"], square))

    def mean(self) -> Tensor:
        """Return the mean of what was added."""
        return self.state["sum"].double() / UNIT / self._number()

    def deviation(self) -> Tensor:
        """Return the standard deviation (n - 1) of what was added; nan for fewer than two."""
        count = self._number()
        spread = (self.state["square"].double() / UNIT - count * self.mean().square()) / (count - 1)
        return spread.clamp_min(0).sqrt()

    def _number(self) -> Tensor:
        if self.state["count"] == 0:
            raise ValueError("no samples yet: there is no mean")
        return self.state["count"].double()
