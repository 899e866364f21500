"""The reports that are built with the book: they open from the file system, in light and dark, on a phone, on paper."""

import json

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from book.publish.reports import MODELS, TEXTS

pytestmark = pytest.mark.browser
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
TABLE = "[...document.querySelectorAll('table')].find(t => t.textContent.includes('inverse directional')).innerText"
WIDE = "document.scrollingElement.scrollWidth > window.innerWidth"


@pytest.fixture(scope="module", params=MODELS)
def visited(request, html, browser):
    """Open a report as a file, once for all tests; return its tab, its folder and what it asked for."""
    context = browser.new_context(color_scheme="light", viewport={"width": 1250, "height": 900})
    tab, asked = context.new_page(), []
    tab.on("request", lambda r: asked.append(r.url))
    folder = html / "reports" / request.param
    tab.goto((folder / "index.html").as_uri())
    yield tab, folder, asked
    context.close()


@pytest.fixture
def report(visited):
    """Show the report in light, on a screen."""
    visited[0].emulate_media(color_scheme="light", media="screen")
    return visited


def test_a_report_is_one_file_that_everyone_can_read(report):
    tab, folder, asked = report
    assert asked == [(folder / "index.html").as_uri()], "asks for more than the page"
    tab.evaluate(AXE_SCRIPT)
    for scheme, rules in (("light", ""), ("dark", "runOnly: ['color-contrast']")):  # where only colours differ
        tab.emulate_media(color_scheme=scheme)
        violations = tab.evaluate(f"async () => (await axe.run({{resultTypes: ['violations'], {rules}}})).violations")
        assert [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in violations] == [], scheme
    tab.set_viewport_size({"width": 390, "height": 844})
    assert not tab.evaluate(WIDE), "scrolls sideways on a phone"


def test_dark_is_dark_and_paper_is_white(report):
    tab, _, _ = report
    light = tab.evaluate(BACKGROUND)
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(BACKGROUND) != light
    tab.emulate_media(color_scheme="dark", media="print")
    assert tab.evaluate(BACKGROUND) == light


def test_chapters_that_a_report_names_are_there(report):
    tab, folder, _ = report
    links = tab.evaluate("[...document.querySelectorAll('.chapters a')].map(a => a.getAttribute('href'))")
    assert links
    for link in links:
        page, _, anchor = link.partition("#")
        assert f'id="{anchor}"' in (folder / page).read_text(encoding="utf-8") if anchor else (folder / page).exists()


def test_the_page_shows_the_numbers_that_lie_beside_it(report):
    tab, folder, _ = report
    numbers = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert numbers["trained"]["texts"] == TEXTS
    gates = tab.evaluate(TABLE)
    texts, scores = numbers["trained"]["texts"], numbers["trained"]["gates"]
    share = sum(head[0] for layer in scores for head in layer) / texts / sum(map(len, scores))
    assert f"{share:.3f}" in gates
