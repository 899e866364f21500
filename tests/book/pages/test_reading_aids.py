"""What helps to read: figures that can be enlarged, and a page for wrong addresses."""

import pytest

PAGE = "book/evidence/semi-bias"
OPEN = "document.querySelector('dialog.enlarged').open"

browser_only = pytest.mark.browser


@pytest.fixture(scope="module")
def tab(browser, html):
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto((html / f"{PAGE}.html").as_uri())
    yield tab
    tab.close()


@browser_only
def test_a_figure_is_enlarged_by_a_tap_and_by_the_keyboard(tab):
    figure = tab.locator("figure img.can-enlarge").first
    figure.click()
    shown = tab.locator("dialog.enlarged img")
    assert shown.get_attribute("src") == figure.evaluate("img => img.src")
    assert shown.get_attribute("alt") == figure.get_attribute("alt")
    assert shown.bounding_box()["width"] > 1.5 * figure.bounding_box()["width"]
    tab.keyboard.press("Escape")
    assert not tab.evaluate(OPEN)
    tab.locator("details.downloads summary").first.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")  # to the first of the menu
    assert tab.evaluate("document.activeElement.className") == "enlarge"
    tab.keyboard.press("Enter")
    assert tab.evaluate(OPEN)
    tab.keyboard.press("Enter")  # the dialog's own button has the focus
    assert not tab.evaluate(OPEN)


@browser_only
def test_an_address_that_is_none_leads_back(browser, html):
    tab = browser.new_page()
    tab.route("**/*", lambda route: route.fulfill(body=(html / "404.html").read_bytes(), content_type="text/html"))
    leads = {"book/none.html": "index.html", "en/book/none.html": "en/index.html", "none.html": "index.html"}
    for address, first in leads.items():
        tab.goto(f"http://book.test/{address}")
        link = tab.locator("a", has_text="the first page")
        assert link.evaluate("link => link.href") == f"http://book.test/{first}"
    tab.close()
