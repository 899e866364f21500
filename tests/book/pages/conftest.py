"""What the checks of sources and built pages share."""

from pathlib import Path

import pytest

from tests.book.pages.book_pages import BROWSERS, HTML, PAGES, PHONE, chromium

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-dev-shm-usage"]


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``page`` once per page of the table of contents, unless it names its own."""
    marks = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    named = {name for names in marks for name in ([names] if isinstance(names, str) else names)}
    if "page" in metafunc.fixturenames and "page" not in named:
        metafunc.parametrize("page", PAGES)


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built pages."""
    if not (HTML / "index.html").exists():
        pytest.skip("the book is not built; run make book")
    return HTML


@pytest.fixture(scope="session")
def browser():
    """Start Chromium, one for all tests: Playwright allows no second beside it. Skip where there is none."""
    executable = chromium()
    if executable is None:
        pytest.skip(f"no Chromium: set CHROMIUM, or install one of {', '.join(BROWSERS)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def tab(browser):
    """Open a tab at a phone's width; nothing may go wrong there, and nothing be asked of a network."""
    from tests.book.pages import play_pages

    tab = play_pages.Tab(browser, PHONE)
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def viewer(request) -> str:
    """Return the viewer that a module of tests is about: ``test_play_cone`` is about ``cone``."""
    return request.module.__name__.rsplit("_", 1)[1]


@pytest.fixture(scope="module")
def record(viewer):
    """Load the viewer's record."""
    from book._ext import viewers
    from book.publish import experiments

    return experiments.load(viewers.RECORDS[viewer])


@pytest.fixture(scope="module")
def page_file(viewer, tmp_path_factory):
    """Write a page with the viewer as the book shows it at first, and what it reads beside it."""
    from tests.book.pages import play_pages

    return play_pages.write(tmp_path_factory.mktemp(viewer), viewer)


@pytest.fixture(scope="module")
def visit(browser, page_file):
    """Open that page at a phone's width, with what is folded away, once for all tests of the module."""
    from tests.book.pages import play_pages

    tab = play_pages.Tab(browser, PHONE)
    page = tab.open(page_file)
    page.evaluate("document.querySelector('.play details')?.setAttribute('open', '')")
    yield page
    tab.close()


@pytest.fixture
def fresh(visit, page_file):
    """Show the page as it begins, with what is folded away."""
    visit.goto(page_file.as_uri())
    visit.locator(".play[data-ready]").wait_for()
    visit.evaluate("document.querySelector('.play details')?.setAttribute('open', '')")
    return visit
