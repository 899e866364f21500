"""Bets: what the directive refuses, and in a real browser, from a file, what a click shows, keeps and counts."""

import pytest

from book._ext import questions as bets
from tests.book.pages.book_pages import PHONE, ROOT, small_book

PAGES = {
    "index": "# One\n\n```{bet} coin\nHeads or $x$?\n- ( ) Heads.\n- (x) *Tails*.\n+++\nIt was **tails**.\n```\n",
    "end": "# End\n\n```{bet} dice\nOne?\n- (x) Yes.\n- ( ) No.\n- ( ) Never.\n- ( ) Both.\n+++\nYes.\n```\n\n"
    "```{bets}\n```\n",
}
ASSETS = {"html_static_path": [str(ROOT / "book" / "assets")], "html_css_files": ["book.css"]}
CONFIG = {"extensions": ["myst_nb", "book._ext.questions"], "myst_enable_extensions": ["dollarmath"], **ASSETS}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("Q?\n- ( ) A\n- ( ) B\n+++\nA", r"exactly one right choice, marked \(x\), got 0"),
        ("Q?\n- (x) A\n- (x) B\n+++\nA", r"exactly one right choice, marked \(x\), got 2"),
        ("Q?\n- (x) A\n+++\nA", "needs 2 to 4 choices.*got 1"),
        ("Q?" + "\n- ( ) B" * 4 + "\n- (x) A\n+++\nA", "needs 2 to 4 choices.*got 5"),
        ("Q?\n- (x) A\n- ( ) B\nA", r"no line \+\+\+"),
        ("Q?\n- (x) A\nand more\n- ( ) B\n+++\nA", "a line each"),
        ("- (x) A\n- ( ) B\n+++\nA", "has no question"),
        ("Q?\n- (x) A\n- ( ) B\n+++\n", "has no outcome"),
    ],
)
def test_what_is_no_bet_is_refused(body, said):
    with pytest.raises(ValueError, match=said):
        bets.choices(body.split("\n"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build a book of two pages, as the book's own are built."""
    folder = tmp_path_factory.mktemp("bets")
    (folder / "_toc.yml").write_text("root: index\n  - file: end\n")
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(text)
    out = folder / "html"
    with (folder / "warnings").open("w") as warnings:
        small_book(folder, out, warning=warnings, **CONFIG).build()
    known = ("already registered", "not included in any toctree")  # another book of this process; a page apart
    warned = [line for line in (folder / "warnings").read_text().splitlines() if "WARNING" in line]
    assert len([line for line in warned if not any(words in line for words in known)]) <= 1, warned
    return out


@pytest.fixture
def tab(tab):
    yield tab.page
    tab.requests.clear()  # MathJax is at its own address in so small a book


@pytest.mark.browser
def test_the_first_click_counts_and_is_kept(tab, built):
    tab.goto((built / "index.html").as_uri())
    assert not tab.locator(".bet-outcome strong").is_visible()
    tab.keyboard.press("Tab")
    tab.get_by_role("button", name="Heads").focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".bet-outcome strong").inner_text() == "tails"
    for _ in range(2):
        assert tab.inner_text(".bet-said") == "Not this time: it's B."
        tab.get_by_role("button", name="Tails").click()  # too late
        assert tab.locator("button[aria-pressed='true']").inner_text() == "Heads."
        tab.reload()
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


@pytest.mark.browser
def test_the_list_counts_and_its_link_carries_the_score(tab, built):
    end = (built / "end.html").as_uri()
    tab.goto(end + "#bets-9-14-35")
    sender = "The sender was right in 9 of 14; guessing gives 3.5."
    assert tab.inner_text(".bet-score") == f"{sender} You haven't bet yet. Still open: 2 of 2 bets."
    tab.get_by_role("button", name="Yes").click()
    tab.locator(".bets a").first.click()
    tab.get_by_role("button", name="Heads").click()
    tab.goto(end)
    assert "You were right in 1 of 2; guessing gives 0.8." in tab.inner_text(".bet-score")
    assert "Still open" not in tab.inner_text(".bet-score")
    assert tab.locator(".bet-mark").all_inner_texts() == ["wrong", "right"]
    tab.get_by_role("link", name="Link to this score").click()
    assert tab.url.endswith("#bets-1-2-8")
    tab.get_by_role("button", name="Forget my bets").click()
    tab.wait_for_function("document.querySelector('.bet-mark')?.textContent === 'not yet'")


@pytest.mark.browser
def test_without_scripts_and_on_paper_choices_and_outcome_can_be_read(browser, built):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((built / "index.html").as_uri())
    assert page.locator(".bet > ol > li").count() == 2
    page.emulate_media(media="print")
    assert page.locator(".bet-outcome strong").bounding_box()["height"] > 0
    context.close()
