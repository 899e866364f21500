"""What is wide, where there is little room: labels of figures on a phone, formulas in the columns of the claims."""

import re

import pytest

from book._ext import typography
from tests.book.pages.book_pages import PHONE, TYPESET

DESK = {"width": 1250, "height": 900}
WIDTHS = """() => [...document.querySelectorAll('.bd-article figure:not(:has(> .play)) img')].map(
  img => [img.getAttribute('src').split('/').pop(),
          img.getBoundingClientRect().width - 2 * parseFloat(getComputedStyle(img).paddingLeft)])"""
CUT = """() => [...document.querySelectorAll('tr td mjx-container')].filter(
  e => e.clientWidth && e.querySelector('mjx-math').getBoundingClientRect().width > e.clientWidth + 2).map(
  e => e.closest('tr').textContent.trim().slice(0, 60))"""


def smallest_label(svg: str, width: float) -> float:
    """Return the height in px of a figure's smallest label where the figure is that wide; infinite without labels."""
    across = re.search(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"', svg, re.DOTALL)
    sizes = [100 * float(size) for size in re.findall(r"scale\((0\.\d+) -0\.\d+\)", svg)]
    return min(sizes, default=float("inf")) * width / float(across[1]) if across else float("inf")


def small_labels(tab, html) -> dict[str, float]:
    """Return the figures of a page whose smallest label has too few px, in light or in dark, with how many."""
    shown = []
    for theme in ("light", "dark"):
        tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        shown += [(name, width) for name, width in tab.evaluate(WIDTHS) if name.endswith(".svg")]
    return {
        name: round(label, 2)
        for name, width in shown
        if (label := smallest_label((html / "_images" / name).read_text(encoding="utf-8"), width)) < typography.LABEL
    }


@pytest.fixture(scope="module")
def phone(browser):
    tab = browser.new_page(viewport=PHONE)
    yield tab
    tab.close()


@pytest.mark.browser
def test_a_wide_figure_scrolls_in_its_frame_says_so_and_takes_the_keyboard(phone, html):
    phone.goto((html / "book" / "evidence" / "bert-gates.html").as_uri(), wait_until="load")
    frame = phone.locator(".figure-frame.scrolls").first
    frame.wait_for()
    hint = frame.evaluate("frame => getComputedStyle(frame.nextElementSibling, '::before').content")
    assert "Swipe" in hint
    frame.focus()
    phone.keyboard.press("ArrowRight")
    phone.wait_for_function("frame => frame.scrollLeft > 0", arg=frame.element_handle())
    frame.locator("img").click()
    assert phone.evaluate("document.querySelector('dialog.enlarged').open")


@pytest.mark.browser
def test_on_a_desk_and_on_paper_no_figure_scrolls(browser, html):
    tab = browser.new_page(viewport=DESK)
    tab.goto((html / "book" / "evidence" / "bert-gates.html").as_uri(), wait_until="load")
    assert tab.locator(".figure-frame").count() > 4
    assert not tab.locator(".figure-frame.scrolls").count()
    tab.set_viewport_size(PHONE)
    tab.emulate_media(media="print")
    widths = [width for _, width in tab.evaluate(WIDTHS)]
    assert max(widths) <= PHONE["width"]
    tab.close()


@pytest.mark.browser
def test_no_formula_of_the_claims_is_wider_than_its_column(browser, html):
    tab = browser.new_page(viewport=DESK)
    tab.goto((html / "book" / "claims.html").as_uri(), wait_until="load")
    tab.evaluate(TYPESET)
    assert tab.locator("td mjx-container").count() > 100
    assert not tab.evaluate(CUT)
    tab.close()


@pytest.mark.browser
def test_formulas_in_a_fold_are_set_when_it_is_opened(browser, html):
    tab = browser.new_page(viewport=DESK)
    tab.goto((html / "book" / "claims.html").as_uri(), wait_until="load")
    fold = tab.locator("details.definitions").first
    assert not fold.locator("mjx-container").count()
    fold.locator("summary").click()
    fold.locator("mjx-container").first.wait_for()
    tab.close()
