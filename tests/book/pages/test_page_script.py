"""What page.js does: formulas too wide for their column are set smaller; a page that is dark is light on paper."""

import pytest

from tests.book.pages.book_pages import ROOT

SCRIPT = ROOT / "book" / "assets" / "page.js"
THEME = "document.documentElement.dataset.theme"
PAGE = """<!doctype html><style>
mjx-container {{ display: inline-block; max-width: 100%; font-size: 20px; overflow: auto }}
mjx-math {{ display: inline-block; width: {width}em }}
</style><script>MathJax = {{startup: {{promise: Promise.resolve()}}}}</script>
<main class="bd-article"><p><mjx-container><mjx-math>x</mjx-math></mjx-container></p></main>"""
SIZE = "parseFloat(getComputedStyle(document.querySelector('mjx-container')).fontSize)"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "least", "most"), [(10, 20, 20), (24, 15, 16.7), (60, 14, 14)])
def test_a_wide_formula_is_set_smaller(browser, tmp_path, width, least, most):
    (tmp_path / "page.html").write_text(
        PAGE.format(width=width) + f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>", encoding="utf-8"
    )
    tab = browser.new_page(viewport={"width": 416, "height": 300})
    tab.goto((tmp_path / "page.html").as_uri(), wait_until="load")
    tab.wait_for_function(f"{least} - 0.01 <= {SIZE} && {SIZE} <= {most} + 0.01", timeout=5000)
    tab.set_viewport_size({"width": 1400, "height": 300})
    tab.wait_for_function(f"{SIZE} === 20", timeout=5000)
    tab.close()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_paper_is_light(browser, theme):
    page = browser.new_page()
    page.set_content(f'<!doctype html><html data-theme="{theme}"><body>text</body></html>')
    page.add_script_tag(path=SCRIPT)
    page.emulate_media(media="print")
    page.wait_for_function(f"{THEME} === 'light'")
    page.emulate_media(media="screen")
    page.wait_for_function(f"{THEME} === '{theme}'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(THEME) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(THEME) == theme
    page.close()
