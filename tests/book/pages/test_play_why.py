"""Why a word looks there, in a real browser, from a file: its numbers, what a click shows, links, the picture."""

import json

import pytest

from book.viewers import why

pytestmark = pytest.mark.browser


def choose(page, name, label):
    page.get_by_role("radiogroup", name=name, exact=True).get_by_label(label, exact=False).first.check(force=True)


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    visit.get_by_label("Sentence", exact=True).select_option("1")
    choose(visit, "Head", "who it is about")
    choose(visit, "Word that looks", "was, word 15")
    return visit


@pytest.mark.parametrize("sentence", [0, 2])
def test_what_is_shown_is_the_records_and_adds_up(fresh, record, sentence):
    fresh.get_by_label("Sentence", exact=True).select_option(str(sentence))
    fresh.get_by_role("radiogroup", name="Word that looks", exact=True).get_by_role("radio").last.check(force=True)
    words, shares = why.row(record, sentence, 0, len(json.loads(record["sentences"])[sentence]) - 1)
    assert shares.sum() == pytest.approx(1, abs=2e-3)
    shown = fresh.evaluate(
        "i => Array.from({length: i + 1}, (_, j) => document.querySelector('.play').numbers.share(i, j))",
        len(words) - 1,
    )
    assert shown == pytest.approx(list(shares))
    parts = [int(cell.get_attribute("data-part")) for cell in fresh.locator("td[data-part]").all()]
    total = fresh.locator(".play tbody tr").last.locator("td").inner_text()
    assert float(total.replace("\u2212", "-")) == pytest.approx(sum(parts) / 100)
    best = words[int(shares.argmax())]
    assert f"gives \u201c{best}\u201d {round(100 * shares.max())}\u00a0%" in fresh.inner_text(".play-said")


def test_a_click_on_a_word_draws_its_arcs_and_names_the_reason(fresh):
    assert fresh.inner_text(".play-said").startswith("\u201cwas\u201d gives \u201csoup\u201d")
    assert "what the two words are" in fresh.inner_text(".play-said")
    arcs = fresh.locator(".play-arcs path")
    wide = [float(arc.get_attribute("stroke-width")) for arc in arcs.all()]
    assert max(wide) == float(fresh.locator(".play-arcs path.chosen").get_attribute("stroke-width"))
    choose(fresh, "Word that is looked at", "bear")
    assert "gives \u201cbear\u201d" in fresh.inner_text(".play-said")
    choose(fresh, "Head", "the first word")
    assert "\u201cThe\u201d" in fresh.inner_text(".play-said")
    choose(fresh, "Word that looks", "The, word 1")
    assert arcs.count() == 0
    assert "gives itself 100\u00a0%" in fresh.inner_text(".play-said")


def test_the_picture_holds_the_words_and_the_arcs(fresh):
    picture = fresh.evaluate("document.querySelector('.play').numbers.picture()")
    assert picture.count("<path") == fresh.locator(".play-arcs path").count()
    assert ">soup</text>" in picture
    assert "where \u201cwas\u201d looks" in picture
