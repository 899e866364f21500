"""Figures of gates and the interactive map: what they refuse, what they hold, and how the map behaves in a browser."""

import base64
import doctest
import json
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

from analysis.maps import gates
from analysis.models.controls import SHARP
from analysis.plotting import attention_viewer, style
from analysis.plotting.attention_viewer import AttentionViewer
from analysis.statistics.intervals import Interval
from book.studies.bert_gates import controls, figures, sink
from tests.book.pages.book_pages import chromium
from tests.book.studies.measurements import measurement

N, TOKENS = 12, ["[CLS]", *(f"<w{i}>" for i in range(10)), "[SEP]"]


@pytest.fixture(scope="module")
def maps():
    """Two layers of two heads, each a pure gate."""
    import torch

    attention = torch.stack([gates.backward(N, 1), gates.directional(N, 3), gates.closed(N), gates.open_gate(N)])
    attention = attention.reshape(2, 2, N, N)
    return attention.numpy(), gates.read_gates(attention)


@pytest.fixture(scope="module")
def viewer(maps):
    attention, reading = maps
    return AttentionViewer(
        attention,
        TOKENS,
        cells=reading.cells.numpy(),
        scores=reading.scores.numpy(),
        order=gates.GATES,
        start=(0, 1, 5, 3),
        label='Map "of" a test',
    )


def test_examples():
    assert doctest.testmod(attention_viewer, extraglobs={"np": np}).failed == 0


def test_the_viewer_holds_what_it_was_given(viewer, maps):
    attention, reading = maps
    data = json.loads(re.search(r"var D=(\{.*?\}), root", viewer.html)[1])
    weights = np.frombuffer(base64.b64decode(data["weights"]), np.uint8).reshape(attention.shape)
    assert np.abs((weights / 255) ** 2 - attention).max() < 0.004
    packed = np.frombuffer(base64.b64decode(data["gates"]), np.uint8)
    cells = np.stack([packed & 15, packed >> 4], -1).ravel().reshape(attention.shape)
    assert np.array_equal(cells, reading.cells.numpy())
    assert data["tokens"] == TOKENS
    assert "<w1>" not in viewer.html  # tokens cannot open tags
    assert not re.search(r"https?://|src=|@[A-Z]+@", viewer.html)


def test_refusals(maps):
    attention, reading = maps
    good = {"cells": reading.cells.numpy(), "scores": reading.scores.numpy(), "order": gates.GATES}
    with pytest.raises(ValueError, match="tokens must be 12"):
        AttentionViewer(attention, TOKENS[1:], **good)
    with pytest.raises(ValueError, match="start must lie within"):
        AttentionViewer(attention, TOKENS, **good, start=(2, 0, 0, 0))
    with pytest.raises(ValueError, match="must both be"):
        AttentionViewer(attention, TOKENS, **(good | {"cells": good["cells"][0]}))
    wide = np.full((12, 12, 60, 60), 1 / 60)
    with pytest.raises(ValueError, match="choose a shorter text"):
        AttentionViewer(
            wide, ["w"] * 60, cells=np.zeros(wide.shape, int), scores=np.zeros((12, 12, 9)), order=gates.GATES
        )
    with pytest.raises(ValueError, match="one map"):
        figures.attention_map(attention[0])
    with pytest.raises(ValueError, match="tokens must be 12"):
        figures.attention_map(attention[0, 0], TOKENS[1:])
    with pytest.raises(ValueError, match="cells must have the shape"):
        figures.attention_map(attention[0, 0], cells=np.zeros((3, 3)), order=gates.GATES)


def test_a_map_is_exported_as_svg_and_png(maps, tmp_path):
    attention, reading = maps
    figure = figures.attention_map(attention[0, 0], TOKENS, cells=reading.cells[0, 0].numpy(), order=gates.GATES)
    for kind, head in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        figure.savefig(tmp_path / f"map.{kind}")
        assert (tmp_path / f"map.{kind}").read_bytes().startswith(head)
    assert [panel.get_xlabel() for panel in figure.axes[:2]] == ["key", "key"]


@pytest.fixture(scope="module")
def tab(viewer, tmp_path_factory):
    """Open the saved viewer from the file system on a phone-sized screen."""
    executable = chromium()
    if executable is None:
        pytest.skip("no Chromium: set CHROMIUM, or install it")
    playwright = pytest.importorskip("playwright.sync_api")
    path = viewer.save(tmp_path_factory.mktemp("viewer") / "map.html")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.wrong, page.asked = [], []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        yield page
        browser.close()


@pytest.mark.browser
def test_the_map_answers_mouse_and_keys(tab):
    said = tab.locator(".said")
    assert "<w4> (5) → <w2> (3): weight 1.000, gate: directional" in said.inner_text()
    tab.locator(".map").focus()
    tab.keyboard.press("ArrowRight")
    assert "→ <w3> (4): weight 0.000, gate: closed" in said.inner_text()
    tab.keyboard.press("-")
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowUp")
    assert "<w3> (4) → [CLS] (0)" in said.inner_text()
    tab.locator(".map canvas").hover(position={"x": 1, "y": tab.locator(".map canvas").bounding_box()["height"] - 2})
    assert "[SEP] (11) → [CLS] (0)" in said.inner_text()
    tab.locator("select.layer").select_option("1")
    tab.locator("select.head").select_option("1")
    assert tab.locator(".shares tbody").inner_text().split() == ["open", "100", "%"]
    tab.locator("button.g").click()
    assert tab.locator("button.g").get_attribute("aria-pressed") == "true"
    assert not tab.wrong
    assert len(tab.asked) == 1  # the page itself


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_is_accessible_and_fits_a_phone(tab, scheme):
    axe = pytest.importorskip("axe_playwright_python.base")
    tab.emulate_media(color_scheme=scheme)
    tab.evaluate(axe.AXE_SCRIPT)
    found = tab.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    assert not [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found if v["impact"] in ("serious", "critical")]
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_every_gate_has_a_panel_of_heads_on_one_scale():
    scores = np.zeros((2, 3, len(gates.GATES)))
    scores[1, 2, gates.GATES.index("cluster")] = 0.4
    figure = figures.heads_by_gate(scores, gates.GATES)
    panels = {panel.get_title(): panel.images[0] for panel in figure.axes if panel.get_title()}
    assert list(panels) == list(gates.GATES)
    assert panels["cluster"].get_array()[1, 2] == pytest.approx(40)
    assert {image.get_clim() for image in panels.values()} == {(0, 100)}


def test_what_is_learned_stands_beside_its_controls():
    trained, controls = Interval(0.6, 0.5, 0.7), {"random": (0.1, 0.2), "shuffled": (0.0, 0.04)}
    (panel,) = figures.learned(dict.fromkeys(("columns", "diagonals", "clusters"), (trained, controls))).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["columns", "diagonals", "clusters"]
    ranges = [list(line.get_xdata()) for line in panel.lines if len(line.get_xdata()) == 3]
    assert ranges == 3 * [pytest.approx([10, 15, 20]), pytest.approx([0, 2, 4])]
    assert {text.get_text() for text in panel.get_legend().get_texts()} == {"random", "shuffled", "MiniLM"}


def test_effects_are_bars_with_the_control_in_grey():
    effects = {"deleted": Interval(0.003, 0.002, 0.004), "at random": Interval(0.05, 0.04, 0.06)}
    (panel,) = figures.volume(effects, "at random").axes
    assert [bar.get_width() for bar in panel.patches] == [0.003, 0.05]
    assert [to_hex(bar.get_facecolor()) for bar in panel.patches] == [
        style.COLOURS[name].lower() for name in ("trained", "control")
    ]


def test_one_row_shows_weights_and_what_arrives():
    left, right = figures.one_row(np.array([0.5, 0.5]), np.array([0.1, 2]), ["[CLS]", "was"], "was").axes
    assert [bar.get_width() for bar in left.patches] == [0.5, 0.5]
    assert [bar.get_width() for bar in right.patches] == [0.05, 1]


def test_what_is_drawn_of_the_census_and_the_sink_is_what_was_measured():
    m = measurement("bert_gates")
    shares = controls.beside(m.rungs)
    trained, ranges = shares["attention on columns"]
    assert trained.value == pytest.approx(m.rungs["columns"].documents.mean())
    assert ranges["random weights as large"] == m.rungs["columns"].range_of(SHARP)
    said = m.removal.said()
    assert said["deleted"] == m.removal.sink[sink.DELETED]
    assert len(said) == 4
