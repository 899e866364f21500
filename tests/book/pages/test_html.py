"""The built pages as files: links, anchors, ids, pictures, and that nothing is asked of an outside host."""

import json
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from book.publish import execution
from tests.book.pages.book_pages import PAGES

LOADS = dict.fromkeys(("script", "img", "iframe", "source", "video", "audio", "embed"), "src") | {"object": "data"}
LOADED_LINKS = {"stylesheet", "preload", "icon", "shortcut icon", "modulepreload"}
LOADED_LINKS |= {"manifest", "preconnect", "dns-prefetch", "apple-touch-icon"}


class Page(HTMLParser):
    """Ids, references, loaded addresses and pictures of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.references, self.loads, self.pictures = Counter(), [], [], []
        self.figures = 0  # how deep inside <figure> the parser is
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get("id"):
            self.ids[values["id"]] += 1
        self.references += [values[key] for key in ("href", "src") if values.get(key)]
        if tag in LOADS and values.get(LOADS[tag]):
            self.loads.append(values[LOADS[tag]])
        if tag == "link" and values.get("rel", "").lower() in LOADED_LINKS:
            self.loads.append(values.get("href", ""))
        if tag == "figure":
            self.figures += 1
        if tag == "img":
            self.pictures.append((values.get("src", ""), (values.get("alt") or "").strip(), self.figures > 0))

    def handle_endtag(self, tag):
        if tag == "figure":
            self.figures -= 1


@cache
def parse(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def built(html: Path) -> list[Path]:
    """Return the built pages; the theme's own fragments under _static are none."""
    return [path for path in sorted(html.rglob("*.html")) if "_static" not in path.parts]


def broken(path: Path) -> list[str]:
    """Return the internal references of a page that lead nowhere."""
    found = []
    for reference in parse(path).references:
        address = urlsplit(reference)
        if address.scheme or address.netloc:
            continue
        target = (path.parent / unquote(address.path)).resolve() if address.path else path
        anchors = parse(target).ids if target.suffix == ".html" and target.exists() else None
        kept = anchors is None or not address.fragment or unquote(address.fragment) in anchors
        if not (target.exists() and kept):
            found.append(reference)
    return found


def test_links_and_anchors_lead_somewhere(html):
    assert not {path.name: bad for path in built(html) if (bad := broken(path))}


def test_ids_are_unique(html):
    twice = {path.name: [i for i, n in parse(path).ids.items() if n > 1] for path in built(html)}
    assert not {name: ids for name, ids in twice.items() if ids}


def test_nothing_is_loaded_from_outside(html):
    outside = {
        path.name: [a for a in parse(path).loads if urlsplit(a).scheme in {"http", "https"} or a.startswith("//")]
        for path in built(html)
    }
    assert not {name: addresses for name, addresses in outside.items() if addresses}


def test_pictures_are_figures_with_alt_text(page, html):
    for source, alt, in_figure in parse(html / f"{page}.html").pictures:
        if "/_static/" in source or source.startswith("_static/"):
            continue  # the logo
        if "/question-" in source:
            assert alt  # of a card on the first page, which is no figure
            continue
        assert alt, f"{source} has no alt text"
        assert in_figure, f"{source} is not in a numbered figure: give the cell a caption and a name"


def test_figures_have_their_chapters_number_or_none(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    captions = [caption.split("</figcaption>")[0] for caption in text.split("<figcaption>")[1:]]
    assert len(captions) == text.count("<figure"), "a figure has no caption"
    chapter = re.search(r'<h1><span class="section-number">(\d+)', text)
    numbers = [number for caption in captions for number in re.findall(r'caption-number">Fig. (\d+)', caption)]
    assert numbers == ([chapter[1]] * len(captions) if chapter else [])


def test_no_page_is_heavy(html):
    sizes = {path.relative_to(html).as_posix(): path.stat().st_size for path in built(html)}
    assert not {name: size for name, size in sizes.items() if size > 1_500_000}
    assert sum(sizes.values()) < 25_000_000


def test_the_search_finds_formulas_and_statements_by_name(html):
    text = (html / "searchindex.js").read_text(encoding="utf-8")
    titles = json.loads(text[text.index("{") : text.rindex("}") + 1])["alltitles"]
    found = {title.removeprefix(" (").removesuffix(")") for title in titles}
    named = {
        match[1].strip()
        for name, path in execution.pages(html.parents[1] / "book").items()
        if (html / "book" / f"{name}.html").exists()
        for match in re.finditer(r"\{prf:(?!proof|ref)\w+\} *(\S.*)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert not {name for name in named if "$" not in name} - found


def test_a_broken_anchor_is_found(tmp_path):
    (tmp_path / "a.html").write_text("<p id=x><a href='b.html#here'></a><a href='b.html#gone'></a><a href='c.html'>")
    (tmp_path / "b.html").write_text("<p id=here><p id=here>")
    assert broken(tmp_path / "a.html") == ["b.html#gone", "c.html"]
    assert parse(tmp_path / "b.html").ids["here"] == 2


def test_no_page_names_this_machine(page, html):
    text = (html / f"{page}.html").read_text(encoding="utf-8")
    root = str(html.parents[1])
    if len(Path(root).parts) < 3:
        pytest.skip("the checkout's path is too short to be told from other text")
    assert root not in text


ENTRY = r'<dl class="py (?:function|class|exception)">\s*<dt class="sig[^"]*" id="(analysis\.[\w.]+)\.\w+">(.*?)</dt>'
ENTRY = re.compile(ENTRY, re.DOTALL)


@pytest.mark.parametrize("package", [page for page in PAGES if page.startswith("book/api-")])
def test_an_entry_of_the_package_shows_the_module_that_it_is_imported_from(package, html):
    entries = ENTRY.findall((html / f"{package}.html").read_text(encoding="utf-8"))
    assert entries
    assert not [module for module, entry in entries if f"{module}." not in re.sub(r"<[^>]+>", "", entry)]


@pytest.mark.parametrize(("moved", "holds"), [("at-a-glance", "claims-filter"), ("what-it-reads", "table-filter")])
def test_the_old_address_of_a_page_leads_on_to_one_that_is_there(html, moved, holds):
    old = html / "book" / f"{moved}.html"
    page = old.read_text(encoding="utf-8")
    (address,) = re.findall(r'url=([^"]+)"', page)
    assert f'href="{address}"' in page
    assert holds in (old.parent / address).read_text(encoding="utf-8")
