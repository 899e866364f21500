"""How far a computed tensor is from the exact one."""

from torch import Tensor


def largest(difference: Tensor) -> float:
    """Return the largest absolute entry.

    Examples
    --------
    >>> from torch import tensor
    >>> largest(tensor([1.0, -2.0]))
    2.0
    """
    return difference.abs().max().item()
