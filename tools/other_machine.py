"""Play another machine: move rounded results of torch by units in their last place.

Machines add in different orders and have different exponentials, so two of them rarely agree in the last digits of a
number. Where the variable ``OTHER_MACHINE`` holds a seed, :func:`enter` moves every second result of the operations
that round by two units in the last place. The same value always moves alike, and an exact result stays: small whole
numbers, powers of two, products and sums with one term. The vectors of a decomposition change their signs as well.
``make portable`` runs the chapters and the tests so, and ``.ci/run`` runs the chapters with one seed.
"""

import os

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# fmt: off
ROUNDING = {
    "mm", "bmm", "mv", "dot", "addmm", "addmv", "addbmm", "baddbmm", "sum", "nansum", "cumsum", "mean", "prod",
    "var", "std", "var_mean", "std_mean", "norm", "vector_norm", "softmax", "log_softmax", "logsumexp",
    "logcumsumexp", "native_layer_norm", "scaled_dot_product_flash_attention_for_cpu", "exp", "exp2", "expm1",
    "log", "log2", "log10", "log1p", "sin", "cos", "tan", "atan2", "tanh", "sigmoid", "silu", "gelu", "erf",
    "erfinv", "softplus", "pow", "rsqrt", "convolution", "cdist", "randn", "normal", "svd", "eigh", "eig", "qr",
    "solve_ex", "inv_ex", "cholesky_ex", "det", "lu_factor_ex", "lstsq", "cumprod",
}
# fmt: on
BITS = {torch.float32: (torch.int32, 12), torch.float64: (torch.int64, 30)}  # an exact result ends in so many zeros
CHUNK = 1 << 16  # values at a time, so that what is in between stays in the cache


def move(result: torch.Tensor, seed: int) -> None:
    """Move every second rounded value, chosen by its own bits, by two units in the last place."""
    kind, zeros = BITS[result.dtype]
    whole = result.contiguous()
    for raw in whole.view(-1).view(kind).split(CHUNK):
        # The sign is the top bit and so no part of bit 8 of a product: opposite values move alike.
        step = (raw * (48271 + 2600 * seed)).bitwise_right_shift_(7).bitwise_and_(2)
        raw.bitwise_xor_(step.mul_(raw.bitwise_and((1 << zeros) - 1).ne_(0)))
    if whole is not result:
        result.copy_(whole)


def one_term(name: str, args: tuple) -> torch.Tensor | None:
    """Say which elements of a product or a sum have at most one term besides zeros: these are exact everywhere."""
    if name in ("mm", "bmm") and any(factor.count_nonzero() < factor.numel() for factor in args[:2]):
        return (args[0] != 0).float() @ (args[1] != 0).float() < 2
    return (args[0] != 0).sum(*args[1:]) < 2 if name == "sum" else None


class OtherMachine(TorchDispatchMode):
    """Moves what torch computes on a CPU while it is entered."""

    def __init__(self, seed: int):
        super().__init__()
        self.seed = seed

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run the operation, then move its results where they are."""
        out = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0].strip("_").removeprefix("linalg_")
        if name in ROUNDING and not func.__name__.endswith("out"):
            results = out if isinstance(out, tuple) else (out,)
            # What follows the first result of these two is for the gradient alone.
            for found in results[:1] if name.startswith(("native", "scaled")) else results:
                if isinstance(found, torch.Tensor) and found.dtype in BITS and found.device.type == "cpu":
                    exact = one_term(name, args)
                    kept = None if exact is None else found.clone()
                    move(found, self.seed)
                    if kept is not None:
                        found.copy_(torch.where(exact, kept, found))
            if name == "svd":
                turn(results[1], results[0], results[2].mT)
            elif name == "eigh":
                turn(results[0], results[1])
        return out


def turn(values: torch.Tensor, *vectors: torch.Tensor) -> None:
    """Change the signs of the vectors, columns, by a bit of the value that each belongs to."""
    signs = 1 - 2 * (values.double().view(torch.int64) >> 31 & 1).to(vectors[0].dtype)
    for columns in vectors:
        columns[..., : signs.shape[-1]] *= signs.unsqueeze(-2)


def enter() -> None:
    """Be the machine that the variable names, until the process ends; without it, or for seed 0, this one."""
    if seed := int(os.environ.get("OTHER_MACHINE") or 0):
        OtherMachine(seed).__enter__()
