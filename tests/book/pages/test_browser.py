"""The built pages in a real headless Chromium: requests, errors, math, accessibility, phone width."""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.book.pages.book_pages import PAGES

pytestmark = pytest.mark.browser
MADE = ["search", "genindex", "prf-prf", "py-modindex", "_modules/index", "_modules/analysis/maps/streaming",
        "one-page"]
WHOLE = "one-page"  # the chapters again, whose contents are checked page by page
CONTRAST = "runOnly: ['color-contrast']"
STRUCTURE = "rules: {'color-contrast': {enabled: false}}"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 1000}
TYPESET = """async () => {
  if (!document.querySelector('.math')) return;
  for (let i = 0; i < 300 && !(window.MathJax && MathJax.startup && MathJax.startup.promise); i++)
    await new Promise(done => setTimeout(done, 50));
  await MathJax.startup.promise;
}"""
MEASURE = """() => ({
  math: document.querySelectorAll('.math').length,
  typeset: document.querySelectorAll('mjx-container').length,
  errors: [...document.querySelectorAll('mjx-merror,[data-mjx-error]')].map(e => e.textContent.slice(0, 80)),
  theme: document.documentElement.dataset.theme,
})"""
SIDEWAYS = """() => {
  const page = document.scrollingElement;
  if (page.scrollWidth <= window.innerWidth) return [];
  return [...document.querySelectorAll('.bd-article *')].filter(e => {
    if (e.getBoundingClientRect().right <= window.innerWidth + 1) return false;
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
    return true;
  }).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).concat([`${page.scrollWidth} > ${window.innerWidth}`]);
}"""
SCROLLED = """() => [...document.querySelectorAll('.bd-article .cell_output pre')].filter(
  e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 80))"""
UNFOLD = """() => {
  document.querySelectorAll('details').forEach(fold => { fold.open = true; });
  document.querySelectorAll('button.toggle-button').forEach(button => button.click());
}"""
SETTLED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
  () => setTimeout(done, 1000))))"""  # by the page's own clock, which a busy machine holds up as it does its scripts
FILTERED = """() => [...document.querySelectorAll('.bd-article img')].filter(
  e => getComputedStyle(e).filter !== 'none').map(e => e.getAttribute('src'))"""


class Quiet(SimpleHTTPRequestHandler):
    """Serve files without a log."""

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="session")
def site(html):
    """Serve the built pages; return their address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(html)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def visit(browser, site, page):
    """Open the page in light; note what it asks for and what goes wrong."""
    context = browser.new_context(color_scheme="light", viewport=DESK, reduced_motion="reduce")
    tab = context.new_page()
    outside, errors = [], []
    tab.on("request", lambda r: None if r.url.startswith((site, "data:", "blob:")) else outside.append(r.url))
    tab.on("response", lambda r: errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    tab.on("pageerror", lambda e: errors.append(str(e)))
    tab.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    tab.goto(f"{site}{page}.html", wait_until="load", timeout=120_000)
    tab.evaluate(TYPESET)
    tab.wait_for_load_state("networkidle")
    yield SimpleNamespace(tab=tab, outside=outside, errors=errors)
    context.close()


def findings(tab, rules: str = "") -> list[str]:
    """Return all findings of axe, those of the theme as well."""
    options = f"{{resultTypes: ['violations'], preload: false, {rules}}}"
    violations = tab.evaluate(f"async () => (await axe.run(document, {options})).violations")
    return [f"{v['impact']} {v['id']} ({len(v['nodes'])}): {v['nodes'][0]['html'][:160]}"
            for v in violations]


@pytest.mark.parametrize("page", [*PAGES, *MADE])
def test_page(visit, page):
    tab = visit.tab
    state = tab.evaluate(MEASURE)
    assert not state["errors"], "has math that MathJax cannot read"
    assert state["typeset"] >= state["math"], "has math that is not typeset"
    tab.evaluate(AXE_SCRIPT)
    assert state["theme"] == "light"
    assert not findings(tab, STRUCTURE if page == WHOLE else ""), "has findings of axe in light"
    assert not tab.evaluate(SCROLLED), "has output that scrolls sideways at a desk"
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert page == WHOLE or not findings(tab, CONTRAST), "has findings of axe in dark, where only colours differ"
    assert not tab.evaluate(FILTERED), "alters the colours of figures in dark"
    tab.set_viewport_size(PHONE)
    assert not tab.evaluate(SIDEWAYS), "scrolls sideways on a phone"
    tab.evaluate(UNFOLD)
    tab.evaluate(SETTLED)
    assert not findings(tab, "runOnly: ['scrollable-region-focusable']"), "has what only a mouse can scroll on a phone"
    assert not visit.outside, "asks an outside host"
    assert not visit.errors, "has errors in the console"


@pytest.fixture
def opened(browser, html):
    """Open pages as files, as a reader does who has unpacked the book; note what goes wrong."""
    context = browser.new_context(viewport=DESK)
    tab = context.new_page()
    tab.errors = []
    tab.on("pageerror", lambda e: tab.errors.append(str(e)))
    tab.on("console", lambda m: tab.errors.append(m.text) if m.type == "error" else None)

    def go(address: str):
        tab.goto(f"{html.as_uri()}/{address}", wait_until="load", timeout=120_000)
        tab.locator("svg.svg-inline--fa").first.wait_for(state="attached") if address != f"{WHOLE}.html" else None
        return tab

    yield go
    context.close()


@pytest.mark.parametrize("page", [*PAGES, *MADE])
def test_from_a_file(opened, page):
    tab = opened(f"{page}.html")
    drawn, undrawn = (tab.locator(kind).count() for kind in ("svg.svg-inline--fa", "i[class*='fa-']"))
    assert undrawn == 0, "has icons that are not drawn"
    assert drawn or page == WHOLE
    assert not tab.errors, "has errors in the console"


def search(opened, words: str):
    """Search from a file; return the tab once it has all results."""
    tab = opened(f"search.html?q={words}")
    tab.locator("#search-results", has_text=re.compile("finished|did not match")).wait_for()
    return tab


@pytest.mark.parametrize(("words", "page"), [
    ("participation ratio", "glossary"), ("stable rank", "glossary"), ("total variation", "glossary"),
    ("Toeplitz", "bert-similarity"), ("QK circuit", "glossary"), ("OV circuit", "glossary"),
    ("attention sink", "glossary"), ("previous-token head", "glossary"), ("attention entropy", "bert-normality")])
def test_the_search_knows_standard_names(opened, words, page):
    tab = search(opened, words)
    assert tab.locator(f"#search-results a[href*='book/{page}.html']").count()
    assert not tab.errors


@pytest.mark.parametrize("word", ["constructor", "__proto__", "hasOwnProperty", "toString"])
def test_a_word_that_every_object_of_the_language_has_can_be_searched_for(opened, word):
    assert not search(opened, word).errors


@pytest.mark.parametrize(("address", "chosen"), [
    ("document=K", ("k", "")), ("document=k&verdict=Not+reproduced", ("k", "not-reproduced")),
    ("document=Z", ("", ""))])
def test_the_address_of_the_claims_chooses_a_document_and_a_verdict(opened, address, chosen):
    tab = opened(f"book/claims.html?{address}")
    form = tab.locator("form.claims-filter")
    assert (form.locator("[name=document]").input_value(), form.locator("[name=verdict]").input_value()) == chosen
    rows = tab.locator("tr.claim-row")
    assert rows.locator("visible=true").count() < rows.count() or chosen == ("", "")


def test_what_the_search_passes_over_is_found_among_the_claims(opened):
    tab = opened("search.html?q=(3.4)")
    tab.get_by_role("link", name="The claims", exact=True).last.click()
    tab.wait_for_url("**/claims.html?words=*")
    rows = tab.locator("tr.claim-row")
    assert 0 < rows.locator("visible=true").count() < rows.count()


def test_words_are_marked_on_the_page_of_a_result_and_nowhere_else(opened):
    marks = "span.highlighted"
    search(opened, "induction")
    assert opened("book/glossary.html").locator(marks).count() == 0, "are marked on a page that is no result"
    tab = search(opened, "induction")
    tab.locator("#search-results a[href*='book/glossary.html']").first.click()
    tab.locator(".highlight-link").wait_for()
    assert tab.locator(marks).count() > 0
    assert opened("book/notation.html").locator(marks).count() == 0


@pytest.fixture
def blank(browser, page_source):
    """Show a page made up by the test."""
    tab = browser.new_page(viewport=PHONE)
    tab.set_content(page_source)
    yield tab
    tab.close()


@pytest.mark.parametrize("page_source", ["<main><h1>A</h1><p style='color:#ccc;background:#fff'>pale</p></main>"])
def test_pale_text_is_found(blank):
    blank.evaluate(AXE_SCRIPT)
    assert any("color-contrast" in finding for finding in findings(blank))


@pytest.mark.parametrize("page_source", ["<article class='bd-article'><div class='cell_output'><pre>short</pre>"
                                         "<pre style='width:50px; overflow-x:auto'>a long line</pre></div></article>"])
def test_output_that_scrolls_is_found(blank):
    assert blank.evaluate(SCROLLED) == ["a long line"]


@pytest.mark.parametrize("page_source", ["<article class='bd-article'><p style='width:600px'>wide</p></article>"])
def test_wide_content_is_found(blank):
    assert "width:600px" in blank.evaluate(SIDEWAYS)[0]
