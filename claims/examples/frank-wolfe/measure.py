"""What the claims need: the hard rule and the soft rule of attention on few tokens, and three trained models."""

import math
from functools import cache

import torch

import analysis

STEP, SEEDS = 0.2, 5
NEAR = 0.3  # of a corner at distance 1 from the origin
EVEN = torch.eye(2, dtype=torch.float64)  # the positive semidefinite matrix under which all corners are alike


def draws(seed: int, tokens: int = 24, width: int = 3) -> torch.Tensor:
    """Return standard normal tokens, in double precision."""
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_semidefinite(seed: int, width: int = 3) -> torch.Tensor:
    """Return a random positive semidefinite matrix whose largest eigenvalue is 1."""
    half = draws(1000 + seed, width, width)
    return half.T @ half / torch.linalg.matrix_norm(half, 2) ** 2


def corners_and_inner(seed: int, inner: int = 12) -> torch.Tensor:
    """Return three corners at distance 1 from the origin, then random points of their triangle."""
    angles = torch.arange(3, dtype=torch.float64) * 2 * math.pi / 3
    corners = torch.stack([angles.cos(), angles.sin()], 1)
    shares = torch.rand(inner, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log()
    return torch.cat([corners, shares / shares.sum(1, keepdim=True) @ corners])


def targets(x: torch.Tensor, matrix: torch.Tensor, keys: torch.Tensor | None = None) -> torch.Tensor:
    """Return which token each token scores highest, among those of ``keys`` where they are others."""
    return (x @ matrix.T @ (x if keys is None else keys).T).argmax(-1)


def hard_step(x: torch.Tensor, matrix: torch.Tensor, step: float = STEP) -> torch.Tensor:
    """Move each token a part of the way to the token that it scores highest."""
    return x + step * (x[targets(x, matrix)] - x)


def soft_step(x: torch.Tensor, matrix: torch.Tensor, beta: float, step: float = STEP) -> torch.Tensor:
    """Move each token a part of the way to its softmax mean of the tokens."""
    return x + step * ((beta * x @ matrix.T @ x.T).softmax(1) @ x - x)


def diameter(x: torch.Tensor) -> float:
    """Return the largest distance between two tokens."""
    return torch.cdist(x, x).max().item()


def limit_gap(beta: float = 1e6) -> float:
    """Return how far the soft rule is from the hard one, over random tokens and matrices, at a large ``beta``."""
    pairs = [(draws(seed), random_semidefinite(seed)) for seed in range(SEEDS)]
    return max((soft_step(x, m, beta) - hard_step(x, m)).abs().max().item() for x, m in pairs)


@cache
def same_target(name: str) -> float:
    """Return for how many tokens of a text a first layer's matrices and their symmetric parts choose the same token."""
    tokenizer, model = analysis.pretrained.tokenizer(name), analysis.pretrained.load(name)
    x = analysis.layer_inputs(model, tokenizer(analysis.passages(count=1)[0], return_tensors="pt"), layer=0)[0]
    x, matrices = x.double(), analysis.qk_matrix(analysis.load(name, dtype=torch.float64).layers[0])
    halves = (matrices + matrices.mT) / 2
    same = [targets(x, matrix) == targets(x, half) for matrix, half in zip(matrices, halves, strict=True)]
    return torch.stack(same).double().mean().item()


def semidefinite_heads(name: str) -> int:
    """Count the heads of a model whose merged query-key matrix has eigenvalues of one sign, in its symmetric part."""
    signs = [analysis.symmetric_signature(layer.W_Q, layer.W_K) for layer in analysis.load(name).layers]
    return sum(int(((sign.positive == 0) | (sign.negative == 0)).sum()) for sign in signs)


def contraction(seed: int, steps: int = 60) -> tuple[float, float, float]:
    """Run the hard rule under minus the identity.

    Return the shrinkage of the diameter per step over the last ten steps, its last value, and the distance of the
    cluster from the origin, in units of the first diameter.
    """
    x = draws(seed)
    sizes = [diameter(x)]
    for _ in range(steps):
        x = hard_step(x, -torch.eye(3, dtype=torch.float64))
        sizes.append(diameter(x))
    return (sizes[-1] / sizes[-11]) ** 0.1, sizes[-1] / sizes[0], x.mean(0).norm().item() / sizes[0]


def energy_times_t(seed: int, moving: bool, steps: int = 1000) -> tuple[float, float]:
    """Run Frank-Wolfe's steps 2/(t+2) towards the origin; return t times the largest energy at a tenth and at the end.

    The corners are the first tokens, or the moving ones.
    """
    first = x = draws(seed)
    found = []
    for t in range(1, steps + 1):
        hull = x if moving else first
        x = x + 2 / (t + 2) * (hull[targets(x, -torch.eye(3, dtype=torch.float64), hull)] - x)
        found.append(t * (x**2).sum(1).max().item() / 2)
    return max(found[steps // 20 : steps // 10]), max(found[-steps // 20 :])


def moving_corners(seed: int, equal: bool) -> float:
    """Return the share of the corners of a hull that the hard rule moves, under a random semidefinite matrix.

    With ``equal`` the tokens are scaled to the same length in the matrix's own norm, where all of them are corners.
    """
    x, matrix = draws(seed), random_semidefinite(seed)
    if equal:
        x = x / (x @ matrix * x).sum(1, keepdim=True).sqrt()
    away = targets(x, matrix) != torch.arange(len(x))
    return away[corners(x)].double().mean().item()


def corners(x: torch.Tensor, directions: int = 20000) -> torch.Tensor:
    """Return tokens that are corners of their hull: each is the farthest in some of many random directions."""
    return (draws(7, directions, x.shape[1]) @ x.T).argmax(1).unique()


def paths(x: torch.Tensor, matrix: torch.Tensor, steps: int = 40) -> tuple[float, float]:
    """Run the hard rule.

    Return the share of tokens whose target ever changes, and the farthest that one strays from the straight line to its
    first target.
    """
    first, aim = x, targets(x, matrix)
    changed, off = torch.zeros(len(x), dtype=torch.bool), 0.0
    line = first[aim] - first
    moves = line.norm(dim=1) > 0
    for _ in range(steps):
        changed |= targets(x, matrix) != aim
        x = hard_step(x, matrix)
        along = ((x - first) * line).sum(1, keepdim=True) / (line**2).sum(1, keepdim=True).clamp_min(1e-300) * line
        off = max(off, (x - first - along)[moves].norm(dim=1).max().item())
    return changed.double().mean().item(), off


def slowest(seed: int, shrinking: bool, steps: int = 40) -> float:
    """Return by which factor the farthest token nears its target per step of the hard rule, over the last ten steps.

    Steps are all of one size, or shrink as 1/(t+5), which begins with that size.
    """
    x = corners_and_inner(seed)
    ends, far = x[targets(x, EVEN)], []
    for t in range(steps):
        x = hard_step(x, EVEN, 1 / (t + 5) if shrinking else STEP)
        far.append((x - ends).norm(dim=1).max().item())
    return (far[-1] / far[-11]) ** 0.1


@cache
def stay(beta: float, seed: int, most: int = 100_000) -> tuple[int, int]:
    """Run the soft rule; return the step at which all tokens are near a corner, and that at which one no longer is."""
    x = corners_and_inner(seed)
    places, arrived = x[:3], 0
    for step in range(1, most):
        x = soft_step(x, EVEN, beta)
        far = torch.cdist(x, places).min(1).values.max().item() > NEAR
        if arrived and far:
            return arrived, step
        arrived = arrived or (0 if far else step)
    return arrived, most


def collapse(beta: float, seed: int) -> tuple[float, float]:
    """Run the soft rule for 500 steps; return the diameter and the distance of the mean from the origin."""
    x = corners_and_inner(seed)
    for _ in range(500):
        x = soft_step(x, EVEN, beta)
    return diameter(x), x.mean(0).norm().item()


def soft_from_hard(beta: float, seed: int, steps: int = 60) -> float:
    """Return the median distance between the tokens of the soft and of the hard rule after some steps."""
    soft = hard = corners_and_inner(seed)
    for _ in range(steps):
        soft, hard = soft_step(soft, EVEN, beta), hard_step(hard, EVEN)
    return (soft - hard).norm(dim=1).median().item()


def halved_step(step: float, seed: int, time: float = 4.0) -> float:
    """Return how far tokens are apart at the same time if the hard rule takes steps of a size and of half of it."""
    whole = half = corners_and_inner(seed)
    for _ in range(round(time / step)):
        whole = hard_step(whole, EVEN, step)
        half = hard_step(hard_step(half, EVEN, step / 2), EVEN, step / 2)
    return (whole - half).norm(dim=1).max().item()
