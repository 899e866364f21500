"""A page that is dark on the screen is light on paper, and dark again afterwards."""

import pytest

from tests.book.pages.book_pages import ROOT

THEME = "document.documentElement.dataset.theme"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_paper_is_light(browser, theme):
    page = browser.new_page()
    page.set_content(f'<!doctype html><html data-theme="{theme}"><body>text</body></html>')
    page.add_script_tag(path=ROOT / "book/assets/page.js")
    page.emulate_media(media="print")
    page.wait_for_function(f"{THEME} === 'light'")
    page.emulate_media(media="screen")
    page.wait_for_function(f"{THEME} === '{theme}'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(THEME) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(THEME) == theme
    page.close()
