"""Every figure function of the studies draws into its caller's panels, and leaves matplotlib as it was."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import book.studies
from analysis.plotting import style
from analysis.plotting.ladder import Ladder
from analysis.statistics.intervals import Interval

RANDOM = np.random.default_rng(0)
LADDER = Ladder(RANDOM.random(2), {"random": RANDOM.random((3, 2))})
RUNGS = Ladder(RANDOM.random(2), {rung: RANDOM.random((3, 2)) for rung in style.RUNGS})
TWO = ("trained", "control")
MAP = np.tril(RANDOM.random((4, 4))) + np.eye(4)
MAP = MAP / MAP.sum(-1, keepdims=True)
GATES = ("directional", "open", "closed", "residual")


def some(*shape: int) -> np.ndarray:
    """Return random numbers from 0.1 to 1.1."""
    return 0.1 + RANDOM.random(shape)


def named(names, *shape: int) -> dict[Any, np.ndarray]:
    """Return random numbers by name."""
    return {name: some(*shape) for name in names}


class Case(NamedTuple):
    """A call of a figure function, and the panels it needs."""

    name: str
    arguments: tuple
    count: int
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def draw(self) -> Callable[..., Figure]:
        """The function."""
        study, function = self.name.split(".")
        return getattr(importlib.import_module(f"book.studies.{study}.figures"), function)


CASES = [
    Case("atlas.overview", (some(2, 3, 4, 4),), 1),
    Case("bert_gates.ablation", (named(TWO, 6), {name: named(("zero", "uniform"), 6) for name in TWO}), 2),
    Case("bert_gates.attention_map", (MAP, list("abcd")), 1),
    Case("bert_gates.attention_map", (MAP,), 2, {"cells": np.zeros((4, 4), int), "order": GATES}),
    Case("bert_gates.census", (named(TWO, 2, 3, 4), GATES), 2),
    Case("bert_gates.heads_by_gate", (some(2, 3, 4), GATES), 4),
    Case("bert_gates.one_row", (some(3), some(3), list("abc"), "a"), 2),
    Case("bert_gates.volume", ({"deleted": Interval(0.2, 0.1, 0.3), "random": Interval(0.1, 0, 0.2)}, "random"), 1),
    Case("bert_normality.cone", (named(TWO, 3, 3),) * 4, 3),
    Case("bert_normality.entropies", (named(TWO, 3, 3),) * 2, 2),
    Case(
        "bert_normality.histograms", ({"a": ("trained", some(30)), "b": ("control", some(30))}, {"a": 0.1, "b": 1}), 2
    ),
    Case("bert_normality.singular", (named(TWO, 3, 3),) * 2, 2),
    Case("bert_normality.sizes", (named(TWO, 8), 2.0), 2),
    Case("bert_normality.spectra", ({0: named(TWO, 20), 1: named(TWO, 20)},), 2),
    Case("bert_normality.statistics", ({0: named(TWO, 20), 1: named(TWO, 20)}, 0.3), 2),
    Case("bert_rank.settings", (["a", "b"], LADDER), 1),
    Case("bert_similarity.asymmetry", (named("abcd", 3), "a"), 1),
    Case("bert_similarity.form", ({name: some(8) - 0.5 for name in TWO},), 1),
    Case("bert_similarity.grams", ({"a": some(5, 5) - 0.5, "b": some(5, 5) - 0.5},), 2),
    Case("bert_similarity.lopsided_forms", (named(TWO, 2, 4),), 1),
    Case("bert_similarity.row_norms", (named(TWO, 4, 9),), 3),
    Case("gate_detector.confusion", (10 * some(2, 3), ["a", "b"], ["a", "b", "none"]), 1),
    Case("induction_head.ablations", ({"a": 1.0, "b": 2.0}, 0.5, 3.0), 1),
    Case(
        "induction_head.attention_rows",
        ({"a": ("xyz", some(3), np.array([1])), "b": ("xy", some(2), np.array([0]))},),
        2,
    ),
    Case("induction_head.matrices", (named("abcdef", 4, 4),), 6),
    Case("one_score_four_parts.causes", (named("ab", 6), named("ab", 6), np.arange(6)), 2),
    Case("one_score_four_parts.distances", (["a", "b"], {"x": (some(2), some(2)), "y": (some(2), some(2))}), 1),
    Case("one_score_four_parts.path", (np.linspace(0, 1, 5), named(("content", "semi-bias"), 5), "a"), 1),
    Case("one_score_four_parts.shares", (named("ab", 6, 2), ["content", "semi-bias"]), 2),
    Case("patterns_and_messages.parts", (MAP, 0.5 * MAP, "a"), 3),
    Case("patterns_and_messages.sizes", (some(2, 4), some(2, 4), some(2, 4)), 1),
    Case("patterns_and_messages.spectra", (named("ab", 4, 6), named("ab", 4, 6)), 2),
    Case("patterns_and_messages.tables", (named("ab", 2, 4), "a"), 2),
    Case("rotary_bias.arrows", (some(4), some(4), some(4), 3), 2),
    Case("rotary_bias.controls_parts", ({"a": LADDER, "b": LADDER}, ["c", "d"]), 2),
    Case("rotary_bias.controls_sizes", ({"a": LADDER, "b": LADDER}, ["c", "d"]), 2),
    Case("rotary_bias.kernels", (named(("bias", "mean"), 2, 3, 9),), 4),
    Case("semi_bias.maps", (named("ab", 3, 9),), 2),
    Case("semi_bias.null", (some(4), np.sort(some(3, 4), 0)), 1),
    Case("semi_bias.rise", (some(4), some(4)), 1),
    Case("text_and_code.frames", (named("ab", 3),), 2),
    Case("variant_classifier.percentages", (named("ab", 2, 3), list("xyz"), list("vw")), 2),
    Case("weighted_mean.dials", (np.linspace(0, 1, 5), named("ab", 5, 4), named("ab", 5, 4)), 2),
    Case("weighted_mean.ladder", ({"a": RUNGS, "b": RUNGS}, 1), 1),
    Case("weighted_mean.own_share", (named("abc", 6),), 1),
    Case("weighted_mean.placed", (named("ab", 6), named("ab", 6)), 1),
    Case("weighted_mean.turned", (some(4, 3, 3), [0, 0.3, 0.6, 1], list("abc")), 4),
]


def modules() -> list[str]:
    """Return the names of all modules of the studies."""
    return [found.name for found in pkgutil.walk_packages(book.studies.__path__, "book.studies.")]


def figure_functions() -> dict[str, Callable[..., Figure]]:
    """Return every public function of the studies that returns a figure, by study and name."""
    return {
        f"{name.split('.')[2]}.{function.__name__}": function
        for name in modules()
        if name.rsplit(".", 1)[-1] in {"figures", "questions"} or ".shared." in name
        for _, function in inspect.getmembers(importlib.import_module(name), inspect.isfunction)
        if function.__module__ == name
        and not function.__name__.startswith("_")
        and inspect.signature(function).return_annotation is Figure
    }


FUNCTIONS = figure_functions()


def test_there_are_as_many_as_the_book_has():
    assert len(FUNCTIONS) > 100
    assert {case.name for case in CASES} < set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_takes_panels_and_draws_in_style(name):
    """What `style.in_style` wraps leaves the settings as they were; the next test holds calls to that."""
    assert "ax" in inspect.signature(FUNCTIONS[name]).parameters
    assert inspect.unwrap(FUNCTIONS[name]) is not FUNCTIONS[name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_draws_into_the_panels_that_are_given_and_changes_no_setting(case):
    before = dict(matplotlib.rcParams)
    new = case.draw(*case.arguments, **case.options)
    assert len(new.axes) >= case.count
    assert dict(matplotlib.rcParams) == before
    own = Figure()
    panels = own.subplots(1, case.count, squeeze=False)
    ax = panels[0, 0] if case.count == 1 else panels
    assert case.draw(*case.arguments, **case.options, ax=ax) is own
    assert all(panel.has_data() or panel.texts for panel in panels.flat)
    assert dict(matplotlib.rcParams) == before


def colours_of(figure: Figure) -> set[str]:
    """Return the colours of lines, patches and marks, and the maps of images and of what is coloured by value."""
    found = set()
    for axes in figure.axes:
        for artist in (line for line in axes.lines if line.get_alpha() != 0):
            found |= {to_hex(artist.get_color()), to_hex(artist.get_markerfacecolor())}
        for artist in axes.patches:
            found |= {to_hex(artist.get_facecolor()), to_hex(artist.get_edgecolor())}
        for artist in axes.collections:
            if artist.get_array() is None:
                found |= {to_hex(colour) for colour in (*artist.get_facecolor(), *artist.get_edgecolor())}
        found |= {
            artist.get_cmap().name for artist in (*axes.images, *axes.collections) if artist.get_array() is not None
        }
    return found


BY_CURVE = {"rotary_bias.kernels"}
"""Its curves are heads and stand for no concept: they take the colours of matplotlib's own cycle in turn."""
CONCEPTS = {name for name in style.COLOURS if name not in {"ink", "paper"}} | {*style.GATES, *style.RUNGS}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_takes_other_colours_and_maps_and_the_books_are_back_afterwards(case):
    before = dict(style.COLOURS), dict(style.GATES), dict(style.RUNGS), style.SCORE_CMAP
    options = {"colours": dict.fromkeys(CONCEPTS, "#123456"), "cmap": "magma"}
    own = inspect.signature(inspect.unwrap(case.draw)).parameters
    given = {name: value for name, value in options.items() if name not in own}
    found = colours_of(case.draw(*case.arguments, **case.options, **given))
    book = {to_hex(style.COLOURS[name]) for name in CONCEPTS & style.COLOURS.keys()} | {
        to_hex(colour) for colour in [*style.GATES.values(), *(colour for colour, _ in style.RUNGS.values())]
    }
    assert not found & book or case.name in BY_CURVE
    assert not found & {style.SCORE_CMAP, style.WEIGHT_CMAP, style.POSITION_CMAP}
    assert found & {"#123456", "magma", "from_list"}
    assert (dict(style.COLOURS), dict(style.GATES), dict(style.RUNGS), style.SCORE_CMAP) == before


def test_a_colour_that_stands_for_nothing_is_refused():
    with pytest.raises(ValueError, match="no colour is called 'trainedd': choose from content, "):
        CASES[0].draw(*CASES[0].arguments, colours={"trainedd": "red"})


@pytest.mark.slow
def test_an_import_changes_no_setting():
    code = (
        "import matplotlib, importlib, sys; before = dict(matplotlib.rcParams)\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "assert dict(matplotlib.rcParams) == before"
    )
    names = sorted({function.__module__ for function in map(inspect.unwrap, FUNCTIONS.values())})
    subprocess.run([sys.executable, "-c", code, *names], check=True)
