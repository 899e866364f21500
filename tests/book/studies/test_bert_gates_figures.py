"""Figures of gates and the interactive map: what they refuse, what they hold, and how the map behaves in a browser."""

import base64
import doctest
import json
import re

import numpy as np
import pytest

from analysis.maps import gates
from analysis.plotting import attention_viewer
from analysis.plotting.attention_viewer import AttentionViewer
from analysis.statistics.intervals import Interval
from book.studies.bert_gates import figures
from book.studies.bert_gates.by_texts import by_texts
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


def test_small_tables_show_each_confusion():
    tables = {f"n = {n}": np.array([[n, 0, 0], [1, 1, 2]]) for n in (16, 32, 64)}
    figure = figures.confusions(tables, {"flat": tables["n = 16"]})
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == [*tables, "flat"]
    assert np.allclose(shown[2].images[0].get_array(), [[1, 0, 0], [0.25, 0.25, 0.5]])
    assert shown[0].get_xlabel() == "named"


def test_reliability_shows_every_pattern_that_was_shuffled():
    figure = figures.reliability((16, 32), {"open": np.array([0.5, 1.0])}, np.full((2, 7), 0.01), gates.PATTERNS)
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["open"]
    assert [line.get_label() for line in right.lines] == list(gates.PATTERNS)
    assert np.allclose(right.lines[0].get_ydata(), 1)


def test_the_calibration_shows_every_rate_and_every_power():
    spans = [Interval(0.01 * k, 0.005 * k, 0.02 * k) for k in range(1, 4)]
    figure = figures.calibration(
        {"open": spans, "cluster": spans},
        0.05,
        {"block": [0.2, 0.9], "diagonal": [1, 1]},
        {"block": "cluster", "diagonal": "open"},
        (16, 64),
    )
    left, right = figure.axes
    assert sorted(np.concatenate([box.lines[0].get_xdata() for box in left.containers])) == [1, 1, 2, 2, 3, 3]
    assert [line.get_xdata() for line in left.lines if line.get_linestyle() == "--"] == [[5, 5]]
    assert [line.get_xdata()[0] for line in right.lines] == [20, 90, 100, 100]
    assert [label.get_text() for label in right.get_yticklabels()] == ["block", "diagonal"]


def test_a_map_that_is_all_one_gate_says_so():
    closed, half = np.full((4, 4), gates.GATES.index("closed")), np.zeros((4, 4), int)
    half[2:] = gates.GATES.index("closed")
    figure = figures.gallery([np.eye(4)] * 4, [closed, half] * 2, ["a", "b", "c", "d"], gates.GATES, ["t"] * 4)
    assert [[text.get_text() for text in panel.texts] for panel in figure.axes] == [[], ["all closed"], [], []] * 2


def test_sets_of_texts_stand_beside_their_own_shares():
    m = measurement("bert_gates")
    table, heads = by_texts(m), m.census.trained.scores[..., gates.GATES.index("directional")]
    assert table["columns"].iloc[0] == pytest.approx(100 * heads.mean(), abs=1e-4)
    assert [row.split()[0] for row in table.index if not row.startswith("of these")] == ["48", "12", "24"]
    spans = table["columns"][table.index.str.startswith("of these")]
    assert len(spans) == 3
    assert spans.is_monotonic_decreasing
    assert table.iloc[-1].tolist() == pytest.approx(
        [
            100 * m.rungs["columns"].documents.mean(),
            *(
                100 * ladder.documents.mean()
                for ladder in (
                    m.carried["as trained"],
                    m.rungs["maps with a pattern"],
                    m.rungs["maps with two or more"],
                )
            ),
        ]
    )
