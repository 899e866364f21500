"""The built pages in a real headless Chromium: requests, errors, math, accessibility, phone width."""

import json
import re
import threading
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.book.pages.book_pages import HTML, PAGES, PHONE, TYPESET
from tests.book.pages.test_narrow import small_labels

pytestmark = pytest.mark.browser
MADE = ["search", "genindex", "prf-prf", "py-modindex", "_modules/index", "_modules/analysis/maps/streaming"]
SERVED = ["book/intro", "search"]  # what a server gives beside the files: an address of its own
EVERY_TEXT = (
    "book/evidence/semi-bias"  # the page that is checked with its formulas, and the contrast of each of its texts
)
CONTRAST = "runOnly: ['color-contrast']"
STRUCTURE = "rules: {'color-contrast': {enabled: false}}"
OF_THE_TEMPLATE = ("region", "target-size", "link-in-text-block")  # half of axe's time, alike on pages of one kind
ONE_OF_A_KIND = {"book/api-": "book/api-core", "book/evidence/": EVERY_TEXT}
STRUCTURE_OF_ITS_KIND = f"rules: {json.dumps({r: {'enabled': False} for r in ('color-contrast', *OF_THE_TEMPLATE)})}"
CAN_BE_SCROLLED = "runOnly: ['scrollable-region-focusable']"
DESK = {"width": 1280, "height": 1000}
MEASURE = """() => ({
  math: document.querySelectorAll('.math').length,
  typeset: document.querySelectorAll('mjx-container').length,
  errors: [...document.querySelectorAll('mjx-merror,[data-mjx-error]')].map(e => e.textContent.slice(0, 80)),
  theme: document.documentElement.dataset.theme,
})"""
ICONS = """async () => {
  const own = [...document.fonts].filter(font => font.family.includes('Font Awesome'));
  await Promise.all(own.map(font => font.load()));
  const drawn = icon => own.length && getComputedStyle(icon, '::before').content.startsWith('"');
  return [...document.querySelectorAll("[class*='fa-']")].filter(icon => !drawn(icon)).map(icon => icon.className);
}"""
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
MARKED = """() => [...document.querySelectorAll('.bd-article *')].every(
  e => e.scrollWidth <= e.clientWidth || e.tabIndex >= 0 || !['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
    || e.querySelector('a, button, input, [tabindex="0"]'))"""
EXAMPLES = """([each, judged]) => {
  const backgrounds = new Map([[null, '']]), counts = new Map(), known = new Set(judged);
  const behind = element => {
    if (!backgrounds.has(element)) {
      const style = getComputedStyle(element), before = behind(element.parentElement);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter].join(' ');
      backgrounds.set(element, own === 'rgba(0, 0, 0, 0) none 1 none' ? before : `${before}; ${own}`);
    }
    return backgrounds.get(element);
  };
  const count = (element, style, ...more) => {
    const kind = [style.color, style.fontSize, style.fontWeight, style.textShadow, behind(element), ...more].join('; ');
    counts.set(kind, (counts.get(kind) || 0) + 1);
    if (counts.get(kind) <= each && !known.has(kind)) element.dataset.example = '';
  };
  for (const old of document.querySelectorAll('[data-example]')) delete old.dataset.example;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() && element.getClientRects().length) count(element, getComputedStyle(element));
  }
  for (const field of document.querySelectorAll('input, select, textarea, button'))
    count(field, getComputedStyle(field), field.localName, getComputedStyle(field, '::placeholder').color);
  return [...counts.keys()].filter(kind => !known.has(kind));
}"""  # contrast follows from a text's colour, size and weight and from the backgrounds that it stands on
PUT_FORMULAS_ASIDE = """() => {
  window.formulas = [...document.querySelectorAll('mjx-container')].map(e => [e, [...e.childNodes]]);
  for (const [formula] of window.formulas) formula.replaceChildren();
}"""  # most of a page's elements are parts of formulas, which MathJax makes alike on all pages
PUT_FORMULAS_BACK = "() => window.formulas.forEach(([formula, parts]) => formula.replaceChildren(...parts))"
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


@pytest.fixture(scope="session")
def window(browser):
    """Return the window that pages are opened in, one after another, each in a tab of its own."""
    context = browser.new_context(color_scheme="light", viewport=DESK, reduced_motion="reduce")
    yield context
    context.close()


@pytest.fixture(scope="session")
def judged() -> set[str]:
    """Return the styles of text that can be read, as earlier pages have shown."""
    return set()


@pytest.fixture
def visit(window):
    """Return a function that opens an address in light, and notes what it asks for and what goes wrong."""
    tab = window.new_page()
    visit = SimpleNamespace(tab=tab, outside=[], errors=[])
    tab.on("response", lambda r: visit.errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    tab.on("requestfailed", lambda r: visit.errors.append(f"{r.failure} {r.url}"))
    tab.on("pageerror", lambda e: visit.errors.append(str(e)))
    tab.on("console", lambda m: visit.errors.append(m.text) if m.type == "error" else None)

    def go(address: str) -> SimpleNamespace:
        own = ("{0.scheme}://{0.netloc}/".format(urlsplit(address)), "data:", "blob:")
        tab.on("request", lambda r: None if r.url.startswith(own) else visit.outside.append(r.url))
        tab.goto(address, wait_until="load", timeout=120_000)
        tab.evaluate(TYPESET)
        return visit

    yield go
    tab.close()


def findings(tab, rules: str = "", within: str = "document") -> list[str]:
    """Return all findings of axe, those of the theme as well."""
    options = f"{{resultTypes: ['violations'], preload: false, {rules}}}"
    violations = tab.evaluate(f"async () => (await axe.run({within}, {options})).violations")
    return [f"{v['impact']} {v['id']} ({len(v['nodes'])}): {v['nodes'][0]['html'][:160]}" for v in violations]


@contextmanager
def formulas_aside(tab, page: str):
    """Take the inside of formulas out of the page meanwhile, unless it is the one that is checked with them."""
    if page == EVERY_TEXT:
        yield
        return
    tab.evaluate(PUT_FORMULAS_ASIDE)
    yield
    tab.evaluate(PUT_FORMULAS_BACK)


def pale(tab, judged: set[str]) -> list[str]:
    """Return what axe finds pale among three examples of each style of text but those judged, and note the styles."""
    kinds = tab.evaluate(EXAMPLES, [3, sorted(judged)])
    faults = findings(tab, CONTRAST, "{include: [['[data-example]']]}") if kinds else []
    judged.update(() if faults else kinds)
    return faults


def is_one_of_many(page: str) -> bool:
    """Say whether another page of its kind, of the interface or of the evidence, is checked in its place."""
    return any(page.startswith(kind) and page != chosen for kind, chosen in ONE_OF_A_KIND.items())


def structure(page: str) -> str:
    """Say which of axe's rules hold a page to its structure: all but colours, and the template's where it is chosen."""
    return STRUCTURE_OF_ITS_KIND if is_one_of_many(page) else STRUCTURE


def largest_first(page: str) -> int:
    """Order pages so that no worker is left with a large one at the end."""
    path = HTML / f"{page}.html"
    return -path.stat().st_size if path.exists() else 0


def some_are_slow(page: str):
    """Leave to the slow checks the interface's pages, all but one."""
    slow = page.startswith("book/api-") and is_one_of_many(page)
    return pytest.param(page, marks=pytest.mark.slow) if slow else page


@pytest.mark.parametrize("page", [some_are_slow(page) for page in sorted([*PAGES, *MADE], key=largest_first)])
def test_page(visit, html, page, judged):
    """Open a page from its file, as a reader does who has unpacked the book, and look at everything in one visit."""
    opened = visit((html / f"{page}.html").as_uri())
    tab = opened.tab
    state = tab.evaluate(MEASURE)
    assert not state["errors"], "has math that MathJax cannot read"
    assert state["typeset"] >= state["math"], "has math that is not typeset"
    tab.evaluate(AXE_SCRIPT)
    assert state["theme"] == "light"
    assert marked(tab), "has what only a mouse can scroll"
    with formulas_aside(tab, page):
        assert not findings(tab, structure(page)), "has findings of axe"
        check_icons(tab)
        assert not pale(tab, judged), "has findings of axe in light"
        assert not tab.evaluate(SCROLLED), "has output that scrolls sideways at a desk"
        tab.emulate_media(color_scheme="dark")
        tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        assert not pale(tab, judged), "has findings of axe in dark, where only colours differ"
        assert not tab.evaluate(FILTERED), "alters the colours of figures in dark"
    tab.set_viewport_size(PHONE)
    assert not tab.evaluate(SIDEWAYS), "scrolls sideways on a phone"
    assert page not in PAGES or not small_labels(tab, html), "has labels below nine pixels on a phone"
    tab.evaluate(UNFOLD)
    assert marked(tab), f"has what only a mouse can scroll on a phone: {findings(tab, CAN_BE_SCROLLED)}"
    assert page != EVERY_TEXT or not findings(tab, CAN_BE_SCROLLED), "has what scrolls and is not looked for"
    assert not opened.outside, "asks an outside host"
    assert not opened.errors, "has errors in the console"


def marked(tab) -> bool:
    """Say whether all that scrolls takes the focus, at the latest in a minute."""
    with suppress(PlaywrightTimeout):
        return bool(tab.wait_for_function(MARKED, timeout=60_000))
    return False


def check_icons(tab) -> None:
    """See that the page has icons, and that all are drawn."""
    assert tab.evaluate(ICONS) == [], "has icons that are not drawn"


@pytest.mark.parametrize("page", SERVED)
def test_a_page_from_a_server(visit, site, page):
    opened = visit(f"{site}{page}.html")
    check_icons(opened.tab)
    opened.tab.wait_for_load_state("networkidle")
    assert not opened.outside, "asks an outside host"
    assert not opened.errors, "has errors in the console"


def test_every_text_of_one_page_can_be_read(visit, html):
    tab = visit((html / f"{EVERY_TEXT}.html").as_uri()).tab
    tab.evaluate(AXE_SCRIPT)
    assert not findings(tab, CONTRAST)


@pytest.fixture
def opened(browser, html):
    """Open pages as files, as a reader does who has unpacked the book, but for formulas; note what goes wrong."""
    context = browser.new_context(viewport=DESK)
    context.route("**/mathjax/**", lambda route: route.fulfill(body=""))
    tab = context.new_page()
    tab.errors = []
    tab.on("pageerror", lambda e: tab.errors.append(str(e)))
    tab.on("console", lambda m: tab.errors.append(m.text) if m.type == "error" else None)

    def go(address: str):
        tab.goto(f"{html.as_uri()}/{address}", wait_until="load", timeout=120_000)
        return tab

    yield go
    context.close()


def search(opened, words: str):
    """Search from a file; return the tab once it has all results."""
    tab = opened(f"search.html?q={words}")
    tab.locator("#search-results", has_text=re.compile("finished|did not match")).wait_for()
    return tab


@pytest.mark.parametrize(
    ("address", "chosen"), [("document=K&verdict=Not+reproduced", ("k", "not-reproduced")), ("document=Z", ("", ""))]
)
def test_the_address_of_the_claims_chooses_a_document_and_a_verdict(opened, address, chosen):
    tab = opened(f"book/claims.html?{address}")
    form = tab.locator("form.claims-filter")
    assert (form.locator("[name=document]").input_value(), form.locator("[name=verdict]").input_value()) == chosen
    rows = tab.locator("tr.claim-row")
    assert rows.locator("visible=true").count() < rows.count() or chosen == ("", "")


@pytest.mark.parametrize("name", ["K-7", "k-07", "claim-k-07"])
def test_a_claim_that_the_address_names_is_shown_though_the_filter_hides_it(opened, name):
    tab = opened(f"book/claims.html?words=no+such+words#{name}")
    tab.wait_for_function("""() => {
      const { top } = document.querySelector("#claim-k-07").getBoundingClientRect();
      return 0 <= top && top < innerHeight;
    }""")
    assert tab.locator("form.claims-filter [name=words]").input_value() == ""


def test_back_brings_the_choice_that_the_address_has(opened):
    tab = opened("book/claims.html")
    words, rows = tab.locator("form.claims-filter [name=words]"), tab.locator("tr.claim-row")
    words.fill("bias")
    shown = rows.locator("visible=true").count()
    assert 0 < shown < rows.count()
    tab.evaluate("location.hash = 'claims'")
    words.fill("")
    tab.go_back()
    tab.wait_for_url("**/claims.html?words=bias")
    assert words.input_value() == "bias"
    assert rows.locator("visible=true").count() == shown


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


@pytest.mark.parametrize(
    "page_source",
    [
        "<main><h1>A</h1><p>one</p><p>two</p><p>three</p><p>four</p><div style="
        "'background:#333'><p>black on grey</p></div></main>"
    ],
)
def test_one_pale_text_among_many_is_found(blank):
    blank.evaluate(AXE_SCRIPT)
    kinds = blank.evaluate(EXAMPLES, [3, []])
    assert blank.locator("[data-example]").all_inner_texts() == ["A", "one", "two", "three", "black on grey"]
    judged = set(kinds[:2])  # those of the heading and of the first paragraphs
    assert any("color-contrast" in finding for finding in pale(blank, judged))
    assert blank.locator("[data-example]").all_inner_texts() == ["black on grey"]
    assert judged == set(kinds[:2]), "what is pale is not noted as judged"
    blank.locator("div").evaluate("div => div.remove()")
    assert not pale(blank, judged)
    assert blank.locator("[data-example]").count() == 0


def test_a_file_that_is_missing_and_a_host_outside_are_noticed(visit, tmp_path):
    (tmp_path / "a.html").write_text("<script src=none.js></script><img src='http://127.0.0.1:9/x.png'>")
    opened = visit((tmp_path / "a.html").as_uri())
    assert opened.outside == ["http://127.0.0.1:9/x.png"]
    assert any("none.js" in error for error in opened.errors)
