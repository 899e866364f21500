"""The score of two words in a real browser, from a file: its numbers against Python, what it says."""

import numpy as np
import pytest
import torch

from analysis import AttentionLayer, attend, score_terms
from book._ext import viewers
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser
LABELS = {"wq": "Query factor", "bq": "Query bias", "wk": "Key factor", "bk": "Key bias"}
START = {"wq": 2, "bq": 1, "wk": 1, "bk": 3}


@pytest.fixture
def fresh(visit):
    """The page with its first numbers; one visit serves all tests."""
    visit.get_by_role("button", name="Start again").click()
    return visit


def numbers(page):
    return page.evaluate(
        """() => { const n = document.querySelector('.play').numbers;
        return { parts: Object.values(n.parts()), scores: n.scores(), weights: n.weights() }; }"""
    )


def layer(wq, bq, wk, bk):
    """Return the layer of one head and one channel that has these numbers."""
    matrices = [torch.full((1, 1, 1), float(x)) for x in (wq, wk, 0, 0)]
    return AttentionLayer(*matrices, *(torch.full((1, 1), float(x)) for x in (bq, bk, 0)), torch.zeros(1))


@pytest.mark.parametrize("moved", [{}, {"bk": 0}, {"bq": -3}, {"wq": 0, "bk": -4}, {"wk": -2, "bq": 4, "wq": -1}])
def test_parts_scores_and_weights_are_those_of_the_library(fresh, moved):
    for name, value in moved.items():
        play_pages.slide(fresh, LABELS[name], value)
    x, head = torch.tensor([[0.0], [1.0]]), layer(**{**START, **moved})
    terms, shown = score_terms(x, head), numbers(fresh)
    due = terms.stack("content", "semi_bias", "query_side", "kernel")[:, 0]
    np.testing.assert_allclose(shown["parts"], due, atol=1e-6)
    np.testing.assert_allclose(shown["scores"], terms.total()[0], atol=1e-6)
    np.testing.assert_allclose(shown["weights"], attend(x, head).attention[0], atol=1e-6)
    tables = fresh.locator("table.play-matrix")
    for table, entries in zip(tables.all()[:5], (shown["scores"], *shown["parts"]), strict=True):
        written = [text.replace("\N{MINUS SIGN}", "-") for text in table.locator("td[style]").all_inner_texts()]
        assert list(map(float, written)) == np.ravel(entries).tolist()


def test_the_key_bias_changes_scores_and_no_weight_and_the_query_bias_does(fresh):
    play_pages.slide(fresh, "Key bias", 0)
    assert "from 3 to 0. Scores changed, but no weight did" in fresh.inner_text(".play-said")
    play_pages.slide(fresh, "Query bias", 0)
    said = fresh.inner_text(".play-said")
    assert "You moved the query bias from 1 to 0. A now gives B 50\u00a0% of its weight; it was 73\u00a0%." in said
    fresh.get_by_role("button", name="Start again").click()
    assert "3 times 4 where B looks at B" in fresh.inner_text(".play-said")
    play_pages.slide(fresh, "Query factor", 4)
    assert "The weights of A stayed as they were. B now gives B" in fresh.inner_text(".play-said")
    play_pages.slide(fresh, "Query factor", 2)
    assert "You moved" not in fresh.inner_text(".play-said")
    play_pages.slide(fresh, "Key factor", 0)
    play_pages.slide(fresh, "Query bias", 0)
    play_pages.slide(fresh, "Key bias", 0)
    play_pages.slide(fresh, "Query factor", 0)
    assert "Nothing changed: no score, no weight." in fresh.inner_text(".play-said")


def test_the_static_picture_has_the_first_numbers():
    figure, start = viewers.picture("score")
    assert start == START
    written = [[text.get_text() for text in panel.texts] for panel in figure.axes if panel.images]
    x = torch.tensor([[0.0], [1.0]])
    terms = score_terms(x, layer(**START)).stack("content", "semi_bias", "query_side", "kernel")[:, 0]
    due = [terms.sum(0), *terms]
    assert written == [[f"{value:.0f}" for value in part.ravel()] for part in due]
