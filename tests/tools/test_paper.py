"""The book as a file to carry: what the browser hands over becomes an EPUB whose parts are all there."""

import doctest
import zipfile
from xml.etree import ElementTree

import pytest

from tests.book.pages.book_pages import chromium
from tools import paper

PAGE = """<!DOCTYPE html><main>
<nav>Contents</nav>
<section class="one-page" id="page-one"><h1>One &amp; only</h1><p id="a" style="color: red" data-x="1">A rule,
<mjx-container display="true"><mjx-assistive-mml><math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi></math>
</mjx-assistive-mml></mjx-container>, <a href="#b">there</a>, <a href="book/api.html">elsewhere</a>,
<a href="https://example.org/">outside</a><br></p><p id="a">twice</p><img src="x.svg"><button>no</button></section>
<section class="one-page" id="page-two"><h1>Two</h1><details><summary><p class="collapsed">Show</p></summary>
<p id="b">Here</p></details></section></main>"""
XHTML = "{http://www.w3.org/1999/xhtml}"


def book(tmp_path, chapters):
    paper.package(tmp_path / "book.epub", chapters, {"pictures/0.svg": b"<svg/>"}, paper.about())
    return zipfile.ZipFile(tmp_path / "book.epub")


def test_what_the_package_lists_is_in_it_and_can_be_read(tmp_path):
    with book(tmp_path, [["One", "<section><math/></section>"], ["Two & three", "<section/>"]]) as epub:
        assert epub.infolist()[0].filename == "mimetype"
        assert epub.infolist()[0].compress_type == zipfile.ZIP_STORED
        listed = ElementTree.fromstring(epub.read("book/book.opf")).findall(".//{*}item")
        names = {item.get("href"): item.get("properties") for item in listed}
        assert names["chapter-0.xhtml"] == "mathml"
        assert names["chapter-1.xhtml"] is None
        assert {f"book/{name}" for name in names} <= set(epub.namelist())
        contents = ElementTree.fromstring(epub.read("book/nav.xhtml")).findall(f".//{XHTML}a")
        assert [(a.get("href"), a.text) for a in contents] == [
            ("chapter-0.xhtml", "One"),
            ("chapter-1.xhtml", "Two & three"),
        ]


def test_pictures_are_cleaned():
    assert doctest.testmod(paper).attempted > doctest.testmod(paper).failed == 0


@pytest.mark.skipif(chromium() is None, reason="there is no browser")
def test_a_page_becomes_chapters_whose_links_lead_somewhere(tmp_path):
    from playwright.sync_api import sync_playwright

    (tmp_path / "page.html").write_text(PAGE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto((tmp_path / "page.html").as_uri())
        found = tab.evaluate(paper.CHAPTERS)
        browser.close()
    assert found["pictures"] == [[(tmp_path / "x.svg").as_uri(), "pictures/0.svg"]]
    with book(tmp_path, found["chapters"]) as epub:
        one = ElementTree.fromstring(epub.read("book/chapter-0.xhtml"))
        two = ElementTree.fromstring(epub.read("book/chapter-1.xhtml"))
    assert [a.get("href") for a in one.iter(f"{XHTML}a")] == ["chapter-1.xhtml#b", "https://example.org/"]
    assert [p.attrib for p in one.iter(f"{XHTML}p")] == [{"id": "a"}, {}]
    assert one.find(f".//{XHTML}button") is None
    assert one.find(".//{*}math").get("display") == "block"
    assert two.find(f".//{XHTML}summary").text == "Show"
