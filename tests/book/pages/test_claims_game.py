"""The claims as a game, in a real browser, from a file: what is drawn, what a click shows, the score and its link."""

import pytest

from tests.book.pages.book_pages import ROOT

pytestmark = pytest.mark.browser
OUTCOMES = "reproduced", "conditional", "not-reproduced", "corrected", "not-testable", "fails-on-a-stand-in"
RIGHT = {"reproduced": 0, "corrected": 1, "conditional": 1, "not-reproduced": 2, "fails-on-a-stand-in": 2}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Write a page with the game and a table of 24 claims, four of them not testable."""
    rows = "".join(
        f'<tr id="claim-k-{n}" class="claim-row outcome-{OUTCOMES[n % 6]}"><td>K-{n}</td><td>says {n}</td>'
        f"<td>{OUTCOMES[n % 6]}</td><td>found <a href='#x' id='e{n}'>here</a></td></tr>"
        for n in range(24)
    )
    path = tmp_path_factory.mktemp("game") / "claims.html"
    assets = (ROOT / "book" / "assets").as_uri()
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><link rel="stylesheet" href="{assets}/book.css">'
        f'<body class="bd-article"><div class="claims-game bet" hidden></div><table class="claims">{rows}</table>'
        f'<script src="{assets}/claims-game.js" defer></script></body></html>'
    )
    return path


@pytest.fixture
def tab(tab):
    return tab.page


def play(tab, wrong=()):
    """Answer all ten, rightly but for some; return what was asked."""
    asked = []
    for at in range(10):
        number = int(tab.inner_text(".claims-game").split("says ")[1].split()[0])
        due = RIGHT[OUTCOMES[number % 6]]
        tab.locator(".bet-answers button").nth((due + (at in wrong)) % 3).click()
        tab.locator(".bet-answers button").first.click()  # the first answer counts
        said = tab.inner_text(".bet-said")
        assert said.startswith("Not this time" if at in wrong else "You were right")
        assert OUTCOMES[number % 6] in tab.inner_text(".claims-game")
        assert tab.locator(".claims-game a", has_text="here").count() == 1
        asked.append(number)
        tab.locator(".claims-game button").last.click()
    return asked


def test_ten_are_asked_and_the_link_gives_them_again_with_the_score(tab, file):
    tab.goto(file.as_uri())
    tab.get_by_role("button", name="Begin").click()
    asked = play(tab, wrong=(3, 7, 9))
    assert len(set(asked)) == 10
    assert not any(OUTCOMES[number % 6] == "not-testable" for number in asked)
    assert tab.inner_text(".bet-score").startswith("You were right in 7 of 10; guessing gives 3.3.")
    address = tab.get_by_role("link", name="Link to the same ten").evaluate("link => link.href")
    tab.goto("about:blank")
    tab.goto(address)
    assert play(tab) == asked
    assert "right in 10 of 10" in tab.inner_text(".bet-score")
    assert "The sender was right in 7." in tab.inner_text(".bet-score")
    tab.get_by_role("button", name="Ten others").click()
    assert "Claim 1 of 10" in tab.inner_text(".claims-game")


def test_a_wrong_address_only_offers_to_begin(tab, file):
    tab.goto(file.as_uri() + "#game-x-7")
    assert tab.get_by_role("button", name="Begin").is_visible()
    tab.emulate_media(media="print")
    assert not tab.locator(".claims-game").is_visible()
