"""The notes in the margin of a story: each repeats a link of the paragraph beside it, and covers nothing."""

from itertools import pairwise

import pytest

from tests.book.pages.book_pages import PHONE
from tools import stories

# Of each note: its links, and the links and the place of the paragraph after it.
NOTES = """() => [...document.querySelectorAll('.bd-article .margin.beside')].map(note => {
  const text = note.nextElementSibling, links = box => [...box.querySelectorAll('a')].map(a => a.href);
  const [a, b] = [note, text].map(box => box.getBoundingClientRect());
  return {links: links(note), beside: links(text), left: a.left, right: a.right, top: a.top, bottom: a.bottom,
          text_right: b.right, shown: note.checkVisibility()};
})"""


@pytest.fixture(scope="module")
def tab(browser):
    tab = browser.new_page()
    yield tab
    tab.close()


def notes(tab, html, page, viewport):
    tab.set_viewport_size(viewport)
    tab.goto((html / f"{page}.html").as_uri())
    return tab.evaluate(NOTES)


@pytest.mark.browser
@pytest.mark.parametrize("page", stories.pages())
def test_a_note_stands_beside_the_links_that_it_repeats(tab, html, page):
    wide = notes(tab, html, page, {"width": 1250, "height": 900})
    assert wide
    for note in wide:
        assert note["shown"]
        assert set(note["links"]) <= set(note["beside"])
        assert note["text_right"] <= note["left"]
        assert note["right"] <= 1250
    for above, below in pairwise(wide):
        assert above["bottom"] <= below["top"]
    links = [link for note in wide for link in note["links"]]
    assert len(links) == len(set(links))


@pytest.mark.browser
def test_a_phone_shows_no_notes(tab, html):
    assert not any(note["shown"] for note in notes(tab, html, stories.pages()[0], PHONE))
