"""Every public function of the mathematics under what researchers put around it: gradients, autocast, vmap, meta.

The same calls as in ``test_every_function``, so that a new function is held to all of this without being listed.
"""

import itertools
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch

from analysis.decomposition import block_mixing, terms
from analysis.matrices import spectra
from analysis.transformer import attention
from tests.analysis.test_every_function import CALLS, LAYER, ROOT, X, call, draw, in_precision

pytestmark = pytest.mark.usefixtures("unchecked")
STEP, MOVES = 1e-6, 1e-4
NARROW = {
    ("decomposition.folding.apply_folded", "attention"): "its rows must sum to 1, so they cannot move alone",
    ("maps.entropy.entropy_at", "inverse_temperatures"): "one of them is 0, and none may be negative",
}
"""What cannot be moved by a small step in any direction."""
LOOKS = {"maps.streaming.MapStatistics.attend", "statistics.exact_sums.Moments.add"}
"""What counts in its object, where a batch of calls would meet."""


def map_tensors(value, change):
    """Return an argument with a change of each of its floating tensors."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if is_dataclass(value):
        return replace(value, **{f.name: map_tensors(getattr(value, f.name), change) for f in fields(value) if f.init})
    return [map_tensors(part, change) for part in value] if isinstance(value, list) else value


def floating(value):
    """Return all floating tensors and numbers in a result, whatever holds them."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, np.ndarray | float):
        return floating(torch.as_tensor(value))
    if is_dataclass(value):
        return floating([getattr(value, field.name) for field in fields(value)])
    if isinstance(value, dict):
        return floating(list(value.values()))
    return [part for each in value for part in floating(each)] if isinstance(value, list | tuple) else []


def arguments():
    """Return each argument of each call that holds a floating tensor."""
    held = []
    for name, given in CALLS.items():
        for argument, value in given.items():
            tensors = []
            map_tensors(value, lambda tensor, tensors=tensors: tensors.append(tensor) or tensor)
            held += [(name, argument)] * bool(tensors)
    return [case for case in held if case not in NARROW]


def by_differences(name, argument):
    """Return by how much each number of a result moves when an argument moves in a random direction."""
    ends = []
    for step in (STEP, -STEP):
        seeds = itertools.count(7)
        move = lambda t, by=step, seeds=seeds: t + by * draw(*t.shape, seed=next(seeds))  # noqa: E731
        ends.append(floating(call(name, **{argument: map_tensors(CALLS[name][argument], move)})))
    return [(high.double() - low.double()) / (2 * STEP) for high, low in zip(*ends, strict=True)]


def by_autograd(name, argument):
    """Return the same by the gradient, summed over each tensor of the result; ``None`` where it has none."""
    leaves, directions, seeds = [], [], itertools.count(7)

    def make_leaf(tensor):
        leaves.append(tensor.clone().requires_grad_())
        directions.append(draw(*tensor.shape, seed=next(seeds)))
        return leaves[-1]

    sums = []
    for part in floating(call(name, **{argument: map_tensors(CALLS[name][argument], make_leaf)})):
        if not part.requires_grad:
            sums.append(None)
            continue
        gradients = torch.autograd.grad(part[part.isfinite()].sum(), leaves, allow_unused=True, retain_graph=True)
        sums.append(sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None))
    return sums


@pytest.mark.parametrize(("name", "argument"), arguments())
def test_a_gradient_passes_through_or_is_refused_by_name(name, argument):
    moved = by_differences(name, argument)
    try:
        gradients = by_autograd(name, argument)
    except ValueError as error:
        refusal = str(error)
        with torch.no_grad():
            by_autograd(name, argument)
        assert f"{argument} requires a gradient" in refusal or "gives no gradient" in refusal
        return
    for difference, gradient in zip(moved, gradients, strict=True):
        change = difference[difference.isfinite()]
        if gradient is None:
            assert not change.numel() or change.abs().max() < MOVES, "cut off from the argument in silence"
        else:
            torch.testing.assert_close(gradient, change.sum(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", sorted({name for name, _ in arguments()}))
def test_autocast_does_not_reach_in(name):
    narrow = {
        key: in_precision(value, torch.float32)
        for key, value in CALLS[name].items()
        if not isinstance(value, torch.Generator | np.random.Generator)
    }
    due = floating(call(name, **narrow))
    with torch.autocast("cpu", torch.bfloat16):
        seen = floating(call(name, **narrow))
    for mine, right in zip(seen, due, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "argument"),
    [case for case in arguments() if case[0] not in LOOKS and isinstance(CALLS[case[0]][case[1]], torch.Tensor)],
)
def test_vmap_gives_the_numbers_of_a_loop_or_ends(name, argument):
    """Where the numbers decide what is computed, torch says that they cannot; nothing else is computed in silence."""
    tensor = CALLS[name][argument]
    batch = torch.stack([tensor, tensor])
    try:
        found = torch.vmap(lambda row: tuple(floating(call(name, **{argument: row}))))(batch)
    except (RuntimeError, ValueError, TypeError):
        assert name not in FORMULAS
        return
    for mine, right in zip(found, floating(call(name)), strict=True):
        torch.testing.assert_close(mine, torch.stack([right, right]), equal_nan=True)


FORMULAS = {
    f"{module}.{function}"
    for module, functions in {
        "decomposition.qk_ov": ("messages", "patterns"),
        "decomposition.terms": ("score_terms", "semi_bias", "six_terms"),
        "transformer.attention": ("attend", "compute_scores", "mask_future", "project", "softmax"),
        "transformer.layernorm": ("apply_norm",),
        "transformer.mlp": ("apply_mlp",),
    }.items()
    for function in functions
}
"""Plain formulas, which vmap, meta tensors and compilation must be able to go through."""


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_formula_gives_shapes_on_meta(name):
    meta = {
        key: value.to("meta") if isinstance(value, torch.Tensor) else map_tensors(value, lambda t: t.to("meta"))
        for key, value in CALLS[name].items()
    }
    assert [part.shape for part in floating(call(name, **meta))] == [part.shape for part in floating(call(name))]


@pytest.mark.slow
def test_formulas_compile_whole():
    """In a process of its own: the checks of shapes that the tests put around each function cannot be compiled.

    All in one graph, because each graph more takes half a second; where it breaks, torch names the line.
    """
    subprocess.run([sys.executable, "-c", COMPILE.format(names=sorted(FORMULAS))], check=True, cwd=ROOT)


COMPILE = """
import torch
from tests.analysis.test_differentiation import CALLS, floating
from tests.analysis.test_every_function import FUNCTIONS
formulas = [(FUNCTIONS[name], CALLS[name]) for name in {names}]
compiled = torch.compile(lambda: [function(**given) for function, given in formulas], fullgraph=True, backend="eager")
for mine, (function, given) in zip(compiled(), formulas, strict=True):
    torch.testing.assert_close(floating(mine), floating(function(**given)), equal_nan=True)
"""


def test_scores_in_parts_are_differentiated_and_mapped_as_wholes_are():
    def total(x):
        return terms.score_terms(x, LAYER).total()

    batch = draw(4, *X.shape)
    torch.testing.assert_close(torch.vmap(total)(batch), attention.compute_scores(batch, LAYER))
    whole = torch.func.jacfwd(lambda x: attention.compute_scores(x, LAYER))(X)
    torch.testing.assert_close(torch.func.jacfwd(total)(X), whole)
    torch.testing.assert_close(torch.func.jacrev(total)(X), whole)


def test_a_gradient_passes_where_the_product_is_nearly_singular():
    """There R is computed by itself, and its derivative needs Q."""
    W = draw(1, 6, 3).requires_grad_()
    thin = torch.diag(torch.tensor([1.0, 1e-6, 1e-12], dtype=torch.float64))
    values = spectra.product_singular_values(W @ thin, draw(1, 6, 3, seed=2))
    values.sum().backward()
    assert W.grad.isfinite().all()


def test_a_coupling_is_differentiated():
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    block_mixing.block_coupling(lambda row: scale * row, X, 2).sum().backward()
    assert scale.grad.item() == pytest.approx(2 * 3 * X.shape[-1])


DECIDE = ["representations.anisotropy.cone_index", "statistics.normality.excess_kurtosis"]
DECIDE += ["matrices.rank.numerical_rank", "matrices.symmetry.equalise_norms", "maps.locality.position_share"]


@pytest.mark.parametrize("name", [*DECIDE, "decomposition.block_mixing.off_diagonal_share"])
def test_what_decides_by_numbers_refuses_a_tensor_without_any_by_name(name):
    argument = next(key for key, value in CALLS[name].items() if isinstance(value, torch.Tensor))
    with pytest.raises(ValueError, match=rf"{argument} has no numbers \(it is on meta, or under torch.vmap\)"):
        call(name, **{argument: CALLS[name][argument].to("meta")})
