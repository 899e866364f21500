"""The stories and *How do I ...?*: what they may hold, and that their code runs as a reader copies it."""

import re

import pytest

from tests.book.pages import stories
from tests.book.pages.book_pages import ROOT

PAGES = stories.pages()
MOST_NUMBERS = 5.0  # in a hundred words: about four
EVIDENCE_ONLY = re.compile(r"\{(?:evidence|known)\}`|\{claims-table\}|publish\.|from book|import book")


@pytest.mark.parametrize("page", PAGES)
def test_a_story_is_short(page):
    assert stories.too_much(stories.read(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_story_has_few_numbers(page):
    assert stories.read(page).density <= MOST_NUMBERS


@pytest.mark.parametrize("page", PAGES)
def test_a_story_leaves_the_argument_to_its_evidence_and_links_to_it(page):
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    assert EVIDENCE_ONLY.findall(text) == []
    assert re.search(r"\{(?:ref|numref|doc|prf:ref)\}`|evidence/", text)


def test_who_turns_pages_goes_from_story_to_story(html):
    page = re.compile(r'class="right-next"\s+href="([^"]+)\.html"')
    walked = [PAGES[0]]
    while len(walked) < len(PAGES):
        walked.append("book/" + page.search((html / f"{walked[-1]}.html").read_text(encoding="utf-8"))[1])
    assert walked == list(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_each_cell_of_a_story_runs_alone_after_the_first_without_the_book(page):
    assert stories.failures(stories.read(page).cells) == []


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        (("x = 1", "assert x == 1", "x + 1"), []),
        (("x = 1", "y = x", "z = y"), ["cell 3: NameError: name 'y' is not defined"]),
        (("x = 1", "from book import publish"), ["cell 2: ModuleNotFoundError: a story does without book"]),
        (("1 / 0", "x = 1"), ["cell 1: ZeroDivisionError: division by zero"]),
        (("import analysis", "open('there')"), ["cell 2: FileNotFoundError"]),
        ((), []),
    ],
)
def test_a_cell_that_does_not_run_alone_is_named(cells, named):
    found = stories.failures(cells)
    assert [line[: len(start)] for line, start in zip(found, named, strict=True)] == named


def test_a_reader_sees_the_cells_that_are_not_hidden():
    cell = "```{{code-cell}} ipython3\n:tags: [{}]\n\n{}\n```\n"
    head = "---\nkernelspec:\n  name: python3\n---\n"
    text = head + cell.format("live", "x = 1") + cell.format("hide-input", "y = 2")
    assert list(stories.visible_cells(text)) == ["x = 1"]


def test_what_a_story_has_too_much_of_is_named():
    story = stories.Story("book/x", 1801, 0, 5, 0, ("x = 1",))
    assert stories.too_much(story) == ["1801 words, at most 1800"]


def test_words_and_numbers_are_those_of_sentences():
    text = (
        "---\nx: 1\n---\n# Two heads\n\nOf 12 heads {number}`g/a:.0f` climb by $3$.\n\n```{exercise} A\nIt is 5.\n```\n"
    )
    said = stories.in_sentences(text)
    assert len(stories.NUMBERS.findall(said)) == 2
    assert "5" not in said.replace("/a", "")


@pytest.fixture(scope="module")
def how_do_i():
    return list(stories.visible_cells((ROOT / "book" / "how-do-i.md").read_text(encoding="utf-8")))


def test_how_do_i_has_eleven_cells_of_at_most_eight_lines(how_do_i):
    assert len(how_do_i) == 11  # the others need what is not here
    assert [cell for cell in how_do_i if len([line for line in cell.splitlines() if line.strip()]) > 8] == []


@pytest.mark.slow
def test_each_cell_of_how_do_i_runs_alone(how_do_i):
    assert stories.failures(("pass", *how_do_i)) == []
