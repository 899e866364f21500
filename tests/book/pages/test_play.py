"""What every viewer does, in a real browser, from a file: its link, keyboard, phone, paper, and a page without it."""

from urllib.parse import parse_qs

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from book._ext import viewers
from tests.book.pages import play_pages
from tests.book.pages.book_pages import PHONE

pytestmark = pytest.mark.browser
# Of each viewer: a view that is not the first, and an address that is wrong, which shows the first.
VIEWS = {
    "sentence": ("text=The+name+%26+the+value&layer=1&head=5&off=b_Q", "layer=9&head=-1&query=x&off=b_X"),
    "mixer": ("head=9&query=321&sharpness=0.5", "head=99&query=-5&width=x&constructor=1"),
    "atlas": ("sentence=3&layer=5&head=7&look=moved", "model=constructor&layer=x&head=&sentence=y&look=z"),
    "dial": ("network=1&model=gpt2-mini&t=1.58", "model=constructor&layer=x&head=&network=-1&t=11"),
    "switches": ("mlp=0&norm=0", "constructor=1&skip=2&mlp=1&norm="),
    "cone": ("network=3&text=2&layer=5&row=7&yaw=40", "network=9&text=-1&layer=x&row=99&look=constructor&yaw=999"),
    "score": ("wq=-2&bq=-1&wk=0&bk=1", "wq=9&bq=-5&wk=1e0&bk=x&constructor=1"),
    "sink": ("way=shared&amount=70", "way=constructor&amount=75"),
    "arrows": ("distance=31&head=2&pairs=1", "head=99&distance=-1&pairs=3&kernel=1"),
    "pattern": ("word=c&bias=0", "word=constructor&bias=2&x=1"),
    "why": ("sentence=3&head=2&word=9", "sentence=x&head=-1&word=&to=999"),
}
OUT_OF_REACH = """() => [...document.querySelectorAll('.play input, .play button, .play select, .play summary')].filter(
  e => e.tabIndex < 0 || !(e.labels?.length || e.getAttribute('aria-label') || e.textContent)
    || e.type === 'range' && !e.getAttribute('aria-valuetext')).map(e => e.outerHTML)"""
# Inputs of the browser's own take the keyboard by themselves; keys of a viewer's own are tried in its own tests.

CONTRAST = "runOnly: ['color-contrast']"  # all in which themes differ


@pytest.fixture(scope="module", params=viewers.RECORDS)
def viewer(request):
    return request.param


@pytest.fixture
def tab(browser):
    tab = play_pages.Tab(browser, PHONE)
    yield tab
    tab.close()


def shown(page) -> str:
    """Return all words of the viewer but those of its link, with what is folded away."""
    return page.locator(".play").evaluate("""viewer => {
      viewer.querySelector('details')?.setAttribute('open', '');
      return viewer.innerText.replace(viewer.querySelector('.play-link').innerText, '');
    }""")


def test_a_link_gives_the_view_back_and_a_wrong_one_starts(viewer, page_file, tab):
    other, wrong = ("?" + "&".join(f"{viewer}.{pair}" for pair in view.split("&")) for view in VIEWS[viewer])
    first = shown(tab.open(page_file))
    page = tab.open(page_file, other)
    seen = shown(page)
    assert seen != first
    page.click(".play-link")
    asked, given = (parse_qs(address.split("?")[1].split("#")[0]) for address in (other, page.url))
    assert asked.items() <= given.items()
    assert page.url.endswith(f"#fig-{viewer}")
    assert shown(tab.open(page_file, page.url[page.url.index("?") :])) == seen
    assert shown(tab.open(page_file, wrong)) == first


def test_a_viewer_fits_a_phone_is_legible_in_both_themes_and_leaves_paper_to_the_picture(page_file, tab):
    page = tab.open(page_file)
    shown(page)
    assert not page.locator("figure > img").is_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate(OUT_OF_REACH) == []
    page.evaluate(AXE_SCRIPT)
    for theme, paper, ink, rules in (("light", "#fff", "#000", ""), ("dark", "#111", "#eee", CONTRAST)):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        page.evaluate(f"Object.assign(document.body.style, {{background: '{paper}', color: '{ink}'}})")
        violations = page.evaluate(f"async () => (await axe.run(document, {{preload: false, {rules}}})).violations")
        assert not [(v["id"], v["nodes"][0]["html"][:120]) for v in violations]
    page.emulate_media(media="print")
    assert page.locator("figure > img").is_visible()
    assert not page.locator(".play").is_visible()


def test_without_scripts_the_picture_stays(browser, page_file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("figure > img").is_visible()
    assert not page.locator(".play").is_visible()
    context.close()
