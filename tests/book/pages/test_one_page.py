"""The whole book on one page: ids stay unique, links stay inside, pictures are found."""

import pytest

from book._ext import one_page
from tests.book.pages.book_pages import PAGES

FIRST = (
    '<html><head><link rel="stylesheet" href="../_static/a.css"/></head><body><h1>One</h1>'
    '<article class="bd-article" role="main">'
    '<h1><span class="section-number">7. </span>One<a class="headerlink" href="#one">#</a></h1>'
    '<p id="same">x <a href="#same">here</a> '
    '<a href="two.html#same">there</a> <a href="two.html">two</a> <a href="api.html#f">f</a> '
    '<a href="https://x.org/a#b">out</a><img src="../_images/p.svg" alt=""/><script>run()</script></p>'
    "</article></body></html>"
)
SECOND = '<html><body><article class="bd-article"><h1>Two</h1><p id="same">y</p></article></body></html>'


@pytest.fixture
def made(tmp_path) -> str:
    (tmp_path / "book").mkdir()
    for name, text in (("one", FIRST), ("two", SECOND), ("api", SECOND)):
        (tmp_path / "book" / f"{name}.html").write_text(text)
    return one_page.write(tmp_path, ["book/one", "book/two", "book/api"], "A & B").read_text()


@pytest.mark.parametrize(
    "part",
    [
        'id="one--same"',
        'id="two--same"',
        'href="#one--same"',
        'href="#two--same"',
        'href="#page-two"',
        'href="book/api.html#f"',
        'href="https://x.org/a#b"',
        'src="_images/p.svg"',
        'href="_static/a.css"',
        "A &amp; B: the whole book",
        '<body class="one-page"><main ',
        "</main></body>",
    ],
)
def test_ids_and_addresses_are_those_of_the_one_page(made, part):
    assert part in made


def test_chapters_keep_their_numbers_in_the_contents(made):
    assert '<li><a href="#page-one">7. One</a></li><li><a href="#page-two">Two</a></li>' in made


def test_the_package_and_scripts_are_left_out(made):
    assert made.count("<section") == 2
    assert "run()" not in made


def test_a_page_without_an_article_is_refused():
    with pytest.raises(ValueError, match="book/one has no article"):
        one_page.body("<html></html>", "book/one", [])


def test_the_built_one_page_holds_every_page_but_the_packages(html):
    text = (html / one_page.NAME).read_text(encoding="utf-8")
    assert text.count('<section class="one-page"') == sum(not page.startswith("book/api") for page in PAGES)
