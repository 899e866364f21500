"""What helps to read: figures enlarged and in the page's theme, light paper, wide formulas, wrong addresses."""

import base64
import io

import pytest
from matplotlib.image import imread

from analysis.plotting import style
from book._ext.dark_figures import in_both
from tests.book.pages.book_pages import ROOT

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


WIDE = """<!doctype html><style>
mjx-container {{ display: inline-block; max-width: 100%; font-size: 20px; overflow: auto }}
mjx-math {{ display: inline-block; width: {width}em }}
</style><script>MathJax = {{startup: {{promise: Promise.resolve()}}}}</script>
<main class="bd-article"><p><mjx-container><mjx-math>x</mjx-math></mjx-container></p></main>"""
SIZE = "parseFloat(getComputedStyle(document.querySelector('mjx-container')).fontSize)"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "least", "most"), [(10, 20, 20), (24, 15, 16.7), (60, 14, 14)])
def test_a_wide_formula_is_set_smaller(browser, tmp_path, width, least, most):
    (tmp_path / "page.html").write_text(
        WIDE.format(width=width) + f"<script>{(ROOT / 'book/assets/page.js').read_text(encoding='utf-8')}</script>",
        encoding="utf-8",
    )
    tab = browser.new_page(viewport={"width": 416, "height": 300})
    tab.goto((tmp_path / "page.html").as_uri(), wait_until="load")
    tab.wait_for_function(f"{least} - 0.01 <= {SIZE} && {SIZE} <= {most} + 0.01", timeout=5000)
    tab.set_viewport_size({"width": 1400, "height": 300})
    tab.wait_for_function(f"{SIZE} === 20", timeout=5000)
    tab.close()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_figure_follows_its_page(browser, theme):
    figure, _ = style.new()
    figure.axes[0].plot([0, 1], [0, 1])
    drawn = base64.b64encode(in_both(figure._repr_svg_()).encode()).decode()
    page = browser.new_page(color_scheme="light" if theme == "dark" else "dark")
    page.set_content(f'<html style="color-scheme: {theme}"><img src="data:image/svg+xml;base64,{drawn}">')
    seen = imread(io.BytesIO(page.locator("img").screenshot()))[..., :3].mean(-1)
    page.close()
    assert seen[3, 3] < 0.2 if theme == "dark" else seen[3, 3] > 0.95, "has the ground of the other theme"
    assert seen.max() - seen.min() > 0.7, "has lines that can't be told from the ground"
