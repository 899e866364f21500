"""Controls of a trained network, a ladder: random weights, random weights as large, its own weights out of order."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import nn

SEEDS = range(5)
RUNGS = ("random", "random, as large", "permuted")
"""Random initialisation; each of its matrices scaled to the norm of the trained one; the trained entries permuted."""


def scale_matrices(control: nn.Module, trained: nn.Module) -> nn.Module:
    """Return a copy of a random network whose every matrix has the Frobenius norm of the trained one."""
    scaled, sizes = copy.deepcopy(control), dict(trained.named_parameters())
    with torch.no_grad():
        for name, weight in scaled.named_parameters():
            if weight.ndim == 2 and weight.norm() > 0:
                weight.mul_(sizes[name].norm() / weight.norm())
    return scaled


def permute_entries(trained: nn.Module, seed: int) -> nn.Module:
    """Return a copy of a network in which the entries of every matrix are shuffled; vectors stay as they are."""
    permuted, generator = copy.deepcopy(trained), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in permuted.parameters():
            if weight.ndim == 2:
                order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
                weight.copy_(weight.flatten()[order].view_as(weight))
    return permuted


def climb(trained: nn.Module, random: Callable[[int], nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the trained network and then every control by the name of its rung, five seeds each.

    ``random`` makes the architecture with random weights from a seed.
    """
    yield "trained", trained
    for seed in SEEDS:
        control = random(seed)
        yield from zip(RUNGS, (control, scale_matrices(control, trained), permute_entries(trained, seed)))
