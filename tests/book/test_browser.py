"""The built pages in a real headless Chromium: requests, errors, math, accessibility, phone width."""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from book_pages import PAGES

pytestmark = pytest.mark.browser
CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-dev-shm-usage"]
SEVERE = {"serious", "critical"}
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
FILTERED = """() => [...document.querySelectorAll('.bd-article img')].filter(
  e => getComputedStyle(e).filter !== 'none').map(e => e.getAttribute('src'))"""


def chromium() -> str | None:
    """Return the Chromium to use: the environment variable CHROMIUM, or one on the path."""
    if named := os.environ.get("CHROMIUM"):
        return named
    return next((found for name in CANDIDATES if (found := shutil.which(name))), None)


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
def browser():
    """Start Chromium; skip where there is none."""
    executable = chromium()
    if executable is None:
        pytest.skip(f"no Chromium: set CHROMIUM, or install one of {', '.join(CANDIDATES)}")
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield running
        running.close()


class Visit:
    """One page, opened in one colour scheme: what it asked for and what went wrong."""

    def __init__(self, browser, site: str, page: str, scheme: str):
        self.outside, self.errors = [], []
        self.context = browser.new_context(color_scheme=scheme, viewport=DESK, reduced_motion="reduce")
        self.tab = self.context.new_page()
        self.tab.on("request", lambda r: None if r.url.startswith((site, "data:", "blob:"))
                    else self.outside.append(r.url))
        self.tab.on("response", lambda r: self.errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        self.tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.tab.goto(site + page, wait_until="load")
        self.tab.evaluate(TYPESET)
        self.tab.wait_for_load_state("networkidle")

    def severe(self) -> list[str]:
        """Return the serious and critical findings of axe, theme and all."""
        from axe_playwright_python.base import AXE_SCRIPT
        self.tab.evaluate(AXE_SCRIPT)
        run = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
        violations = self.tab.evaluate(run)
        return [f"{v['impact']} {v['id']} ({len(v['nodes'])}): {v['nodes'][0]['html'][:160]}"
                for v in violations if v["impact"] in SEVERE or v["id"] in {"region", "label-content-name-mismatch"}]


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    """Try both colour schemes."""
    return request.param


@pytest.fixture
def visit(browser, site, page, scheme):
    """Open the page in the colour scheme."""
    visited = Visit(browser, site, f"{page}.html", scheme)
    yield visited
    visited.context.close()


@pytest.mark.parametrize("page", [*PAGES, "search", "genindex"])
def test_page(visit, scheme):
    state = visit.tab.evaluate(MEASURE)
    assert state["theme"] == scheme
    assert not visit.outside, "asks an outside host"
    assert not visit.errors, "has errors in the console"
    assert not state["errors"], "has math that MathJax cannot read"
    assert state["typeset"] >= state["math"], "has math that is not typeset"
    assert not visit.severe(), "has severe findings of axe"
    assert not visit.tab.evaluate(FILTERED), "alters the colours of figures"
    visit.tab.set_viewport_size(PHONE)
    assert not visit.tab.evaluate(SIDEWAYS), "scrolls sideways on a phone"
