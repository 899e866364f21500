"""Every function that takes a layer, with layers as `load` gives them: of each kind, in float32 and in bfloat16.

A call agrees with the same in float64, or is refused; a refusal of bfloat16 says which line helps.
"""

import importlib
import inspect
import re
import typing
from functools import cache

import pytest
import torch

from analysis import load
from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.models.families.tiny import tiny_model
from tests.analysis import rooms
from tests.analysis.test_every_function import INTERNAL, numbers, public

POSITIONS = 9
LAYERS = {
    "learned": cache(lambda: load("gpt2-mini").layers[0]),
    "rotary": cache(lambda: load("neox-mini").layers[0]),
    "grouped": cache(lambda: load(tiny_model("llama").float()).layers[1]),
    "ALiBi": cache(lambda: load(tiny_model("bloom").float()).layers[1]),
}


def takes_layer(hint):
    return hint is AttentionLayer or any(map(takes_layer, typing.get_args(hint)))


def functions():
    """Return the public functions of the package that take a layer, by name."""
    found = {
        f"{module.removeprefix('analysis.')}.{name}": function
        for package in rooms.mathematics()
        for module, _ in rooms.modules(package)
        if module.startswith("analysis.")
        for name, function in public(importlib.import_module(module), module)
        if any(takes_layer(hint) for place, hint in typing.get_type_hints(function).items() if place != "return")
    }
    return {name: of for name, of in found.items() if not {name, name.rpartition(".")[0]} & INTERNAL.keys()}


FUNCTIONS = functions()


def argument(name, layer):
    """Return what a function calls so, to fit a layer."""
    generator, like = torch.Generator().manual_seed(0), layer.W_Q

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    made = {
        **dict.fromkeys(("layer", "weights", "folded"), lambda: layer),
        **dict.fromkeys(("x", "e", "p", "y"), lambda: draw(POSITIONS, layer.model).to(like)),
        "origin": lambda: draw(layer.model).to(like),
        "attention": lambda: draw(layer.heads, POSITIONS, POSITIONS).softmax(-1).to(like),
        "width": lambda: draw(POSITIONS).abs().to(like) + 1,
        "offset": lambda: 1,
        "distance": lambda: 1 if layer.positions.kind == "rotary" else None,
        "biases": lambda: "b_Q",
        "norm": lambda: Norm(draw(layer.model).to(like), draw(layer.model).to(like)),
        "tokens": lambda: torch.arange(POSITIONS),
    }
    return made[name]()


def ask(function, layer):
    """Return the numbers that a call gives, or the words of its refusal."""
    parameters = inspect.signature(function).parameters.values()
    needed = {p.name: p for p in parameters if p.default is p.empty or p.name == "distance"}
    several = [name for name, p in needed.items() if p.kind is p.VAR_POSITIONAL]
    try:
        given = {name: argument(name, layer) for name in needed}
        last = [given.pop(name) for name in several]
        return numbers(function(*given.values(), *last) if last else function(**given))
    except (TypeError, ValueError) as refused:
        return str(refused)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_layer_as_it_comes_is_taken_or_refused_with_a_line_that_helps(name, kind):
    layer, function = LAYERS[kind](), FUNCTIONS[name]
    due, found, half = (ask(function, layer.to(dtype)) for dtype in (torch.float64, torch.float32, torch.bfloat16))
    if isinstance(due, str):
        assert found == due
        assert "positions" in due
    else:
        for mine, right in zip(found, due, strict=True):
            torch.testing.assert_close(mine.double(), right.double(), rtol=1e-3, atol=1e-3)
    if isinstance(half, str) and half != due:
        line = re.search(r"in float32 or float64, got torch.bfloat16: convert it, (\w+)\.to\(torch.float32\)$", half)
        assert line, half
        assert line[1] in inspect.signature(function).parameters
