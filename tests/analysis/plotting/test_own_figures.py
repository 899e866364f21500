"""Every figure function draws into its caller's panels, in its caller's colours, and leaves matplotlib as it was."""

import importlib
import inspect
import io
import pkgutil
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import analysis.plotting
from analysis.plotting import attention_maps, equations, heads, heat_maps, ladder

MAP = np.array([[1.0, 0.0], [0.4, 0.6]])
CELLS = np.array([[0, -1], [1, 0]])
LADDER = ladder.Ladder(np.array([0.1, 0.4]), {"random": np.array([[0.0, 0.1], [0.2, 0.1]])})
RED, BLUE = "#ff0000", "#0000ff"
GATES = "directional", "open"
READINGS = [MAP, MAP], [CELLS, CELLS], ["a", "b"], GATES, "xy"


class Case(NamedTuple):
    """A call of a figure function, the panels it needs, and what gives it other colours."""

    draw: Callable[..., Figure]
    arguments: tuple
    options: dict[str, Any]
    count: int
    colours: dict[str, Any]


LADDERS = {"trained": RED, "random": BLUE}
CASES = [
    Case(attention_maps.draw_gates, ({"a": MAP, "b": MAP}, [1, 3]), {}, 2, {"cmap": "Reds"}),
    Case(attention_maps.draw_readings, READINGS, {}, 4, {"cmap": "Reds", "colours": dict(zip(GATES, (RED, BLUE)))}),
    Case(equations.draw_equation, ([MAP, MAP @ MAP], "=", ["one", "two"]), {}, 3, {"cmap": "Reds"}),
    Case(heads.draw_heads, (MAP, 1 - MAP), {"title": "a", "ylabel": "b"}, 1, {"colours": (RED, BLUE)}),
    Case(heat_maps.draw_maps, ({"a": MAP, "b": MAP}, "xy"), {}, 2, {"cmap": "Reds"}),
    Case(heat_maps.draw_scores, (MAP - 0.5, "a"), {}, 1, {"cmap": "Reds"}),
    Case(ladder.lines, ({"a": LADDER, "b": LADDER}, ["c", "d"]), {}, 2, {"colours": LADDERS}),
    Case(ladder.points, ({"a": LADDER, "b": LADDER}, ["x", "y"]), {"xlabels": ["c", "d"]}, 2, {"colours": LADDERS}),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.draw.__name__)


def drawn_colours(figure: Figure) -> set[str]:
    """Return the colours of all marks, and the names of all maps of colours."""
    found = set()
    for panel in figure.axes:
        found |= {to_hex(line.get_color()) for line in panel.lines}
        found |= {mark.get_cmap().name for mark in (*panel.images, *panel.collections) if mark.get_array() is not None}
        for image in panel.images:
            found |= {to_hex(colour) for colour in getattr(image.get_cmap(), "colors", [])[:2]}
    return found


def test_every_figure_function_is_in_the_table():
    found = set()
    for of in pkgutil.iter_modules(analysis.plotting.__path__, "analysis.plotting."):
        for name, function in inspect.getmembers(importlib.import_module(of.name), inspect.isfunction):
            told = inspect.signature(function)
            own = function.__module__ == of.name and not name.startswith("_")
            if own and told.return_annotation is Figure and "figure" not in told.parameters:
                found.add(function)
    assert found == {case.draw for case in CASES}


@each
def test_it_draws_into_the_panels_that_are_given_and_changes_no_setting(case):
    before = dict(matplotlib.rcParams)
    own = Figure()
    panels = own.subplots(1, case.count, squeeze=False)
    ax = panels[0, 0] if case.count == 1 else panels
    assert case.draw(*case.arguments, **case.options, ax=ax) is own
    assert all(panel.has_data() or panel.texts for panel in panels.flat)
    new = case.draw(*case.arguments, **case.options)
    assert new is not own
    assert len(new.axes) >= case.count
    assert dict(matplotlib.rcParams) == before


def as_tensors(value):
    """Return arrays of numbers as a model leaves them: in bfloat16, with a gradient."""
    if isinstance(value, np.ndarray):
        tensor = torch.tensor(value)
        return tensor.bfloat16().requires_grad_() if tensor.is_floating_point() else tensor
    if isinstance(value, dict):
        return {key: as_tensors(part) for key, part in value.items()}
    return type(value)(as_tensors(part) for part in value) if type(value) in (list, tuple) else value


@each
def test_numbers_are_drawn_as_a_model_leaves_them(case):
    own, due = (case.draw(*given, **case.options) for given in (as_tensors(case.arguments), case.arguments))
    for panel, other in zip(own.axes, due.axes, strict=True):
        for mark, right in zip((*panel.lines, *panel.collections), (*other.lines, *other.collections), strict=True):
            found = [part.get_ydata() if hasattr(part, "get_ydata") else part.get_array() for part in (mark, right)]
            if found[1] is not None:
                np.testing.assert_allclose(*found, rtol=1e-2)


@each
def test_a_reader_s_setting_of_tex_stops_no_figure(case):
    with matplotlib.rc_context({"text.usetex": True}):
        case.draw(*case.arguments, **case.options).savefig(io.BytesIO(), format="png", dpi=20)


@pytest.mark.parametrize("token", ["$$", "$_$", "a$b^$", "$"])
def test_tokens_are_no_formulas(token):
    heat_maps.draw_maps({"a": MAP}, [token, "x"]).savefig(io.BytesIO(), format="png", dpi=20)
    drawn = attention_maps.draw_readings([MAP], [CELLS], ["a"], GATES, [token, "x"])
    drawn.savefig(io.BytesIO(), format="png", dpi=20)


@pytest.mark.parametrize("case", [case for case in CASES if case.count > 1], ids=lambda case: case.draw.__name__)
def test_too_many_panels_are_refused(case):
    with pytest.raises(ValueError, match=f"ax must hold {case.count} panels"):
        case.draw(*case.arguments, **case.options, ax=Figure().subplots(1, case.count + 1))


@each
def test_its_colours_are_the_callers(case):
    default = drawn_colours(case.draw(*case.arguments, **case.options))
    changed = drawn_colours(case.draw(*case.arguments, **case.options, **case.colours))
    due = {"cmap": {"Reds"}, "colours": {RED, BLUE}}
    for name in case.colours:
        assert due[name] <= changed
        assert not due[name] & default


def test_a_pdf_has_truetype_fonts():
    case = CASES[0]  # all take their fonts from one style
    figure, buffer = case.draw(*case.arguments, **case.options), io.BytesIO()
    figure.savefig(buffer, format="pdf")
    written = buffer.getvalue()
    written += b"".join(map(inflate, re.findall(rb"stream\r?\n(.*?)endstream", written, re.DOTALL)))
    assert b"/Type3" not in written.replace(b" ", b"")
    assert b"/CIDFontType2" in written


def inflate(stream: bytes) -> bytes:
    """Return a stream of a PDF as it reads, or nothing where it is not compressed."""
    try:
        return zlib.decompressobj().decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.slow
def test_an_import_changes_no_setting():
    code = (
        "import matplotlib, pkgutil, importlib; before = dict(matplotlib.rcParams)\n"
        "import analysis.plotting as of\n"
        "for module in pkgutil.iter_modules(of.__path__, 'analysis.plotting.'): importlib.import_module(module.name)\n"
        "assert dict(matplotlib.rcParams) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
