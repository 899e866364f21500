"""The precision in which a function computes: that of its tensors, also under a caller's autocast."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let numbers that a model makes without naming a dtype be of its own."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def without_autocast(function: Callable) -> Callable:
    """Let a function compute products in the dtype of their factors, also under ``torch.autocast``.

    >>> x = torch.full((1, 1), 1 + 2**-12)
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     (x @ x).dtype, without_autocast(torch.matmul)(x, x).dtype
    (torch.bfloat16, torch.float32)
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        with ExitStack() as stack:
            for kind in ("cpu", "cuda"):
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            return function(*args, **kwargs)

    return call
