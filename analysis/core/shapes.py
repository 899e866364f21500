"""How the dataclasses of tensors print: the shape of each tensor, not its thousands of numbers."""

from dataclasses import fields
from typing import Any

from torch import Tensor


def say_shapes(self: Any) -> str:
    """Return what a dataclass prints as: of each tensor that has axes its shape, and all else as it prints.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import torch
    >>> @dataclass
    ... class Read:
    ...     maps: Tensor
    ...     causal: bool
    ...     __repr__ = say_shapes
    >>> Read(torch.zeros(8, 12, 12), causal=True)
    Read(maps=<8 x 12 x 12>, causal=True)
    """
    return f"{type(self).__name__}({', '.join(f'{f.name}={_say(getattr(self, f.name))}' for f in fields(self))})"


def _say(value: Any) -> str:
    if isinstance(value, Tensor) and value.ndim:
        return f"<{' x '.join(map(str, value.shape))}>"
    return repr(value)
