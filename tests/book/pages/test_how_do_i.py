"""*How do I ...?*: short cells, each of which runs alone, in an empty folder, without the book."""

import pytest

from tests.book.pages import stories
from tests.book.pages.book_pages import ROOT

MOST_LINES = 8


@pytest.fixture(scope="module")
def cells():
    return list(stories.visible_cells((ROOT / "book" / "how-do-i.md").read_text(encoding="utf-8")))


def test_there_are_eleven_cells_of_at_most_eight_lines(cells):
    assert len(cells) == 11  # the others need what is not here
    assert [cell for cell in cells if len([line for line in cell.splitlines() if line.strip()]) > MOST_LINES] == []


@pytest.mark.slow
def test_each_runs_alone(cells):
    assert stories.failures(("pass", *cells)) == []
