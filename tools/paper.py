"""Print the built book: ``python -m tools.paper OUT`` writes ``attention-taken-apart.pdf`` and ``.epub`` there.

Both are made of the one-page edition, as headless Chromium shows it. In the EPUB each page is a chapter, formulas are
MathML, and a link leads to a chapter where the book has one and is plain text where it does not.
"""

import html
import re
import sys
import zipfile
from pathlib import Path

import yaml

from tests.book.pages.book_pages import HTML, ROOT, TYPESET, chromium

NAME = "attention-taken-apart"
FOOTER = '<div style="font-size:8px;width:100%;text-align:center"><span class="pageNumber"></span></div>'
# What a reader of books needs of the page: the sections as XHTML, formulas as MathML, the names of the pictures.
CHAPTERS = r"""() => {
  for (const box of document.querySelectorAll('mjx-container')) {
    const formula = box.querySelector('math');
    if (box.getAttribute('display') === 'true') formula.setAttribute('display', 'block');
    box.replaceWith(formula);
  }
  const gone = 'script, style, link, form, button, dialog, template, nav, canvas, details.downloads, p.downloads, ' +
               'noscript, .headerlink, .margin.beside, .play';
  for (const one of document.querySelectorAll(gone)) one.remove();
  for (const one of document.querySelectorAll('summary'))
    one.textContent = (one.querySelector('.collapsed') || one).textContent.trim();
  const seen = new Set(), pictures = new Map(), main = document.querySelector('main');
  for (const one of main.querySelectorAll('[id]')) {
    if (seen.has(one.id)) one.removeAttribute('id');
    seen.add(one.id);
  }
  const kept = /^(id|class|href|src|alt|title|colspan|rowspan|scope|lang)$/;
  for (const one of main.querySelectorAll('*')) {
    if (one.closest('math, svg')) continue;
    for (const {name} of [...one.attributes]) if (!kept.test(name)) one.removeAttribute(name);
  }
  for (const one of main.querySelectorAll('img')) {
    const address = new URL(one.getAttribute('src'), document.baseURI).href;
    if (!pictures.has(address)) pictures.set(address, `pictures/${pictures.size}.${address.split('.').pop()}`);
    one.setAttribute('src', pictures.get(address));
    one.alt ||= '';
  }
  const sections = [...main.querySelectorAll('section.one-page')];
  const place = new Map(sections.flatMap((section, k) =>
    [section, ...section.querySelectorAll('[id]')].map(one => [one.id, `chapter-${k}.xhtml#${one.id}`])));
  for (const one of main.querySelectorAll('a')) {
    const address = one.getAttribute('href') || '';
    if (/^(https?|mailto):/.test(address)) continue;
    if (place.has(address.slice(1))) one.setAttribute('href', place.get(address.slice(1)));
    else one.replaceWith(...one.childNodes);
  }
  const writer = new XMLSerializer();
  return {pictures: [...pictures], chapters: sections.map(section =>
    [section.querySelector('h1').textContent.trim(), writer.serializeToString(section)])};
}"""
STYLE = "img { max-width: 100%; } pre { white-space: pre-wrap; font-size: 0.8em; } table { font-size: 0.85em; }"
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><title>{title}</title><link rel="stylesheet" href="style.css"/></head><body>{body}</body></html>
"""
CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>
"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">{name}-{version}</dc:identifier><dc:title>{title}</dc:title><dc:language>en</dc:language>
<dc:creator>{author}</dc:creator><dc:rights>{rights}</dc:rights>
<meta property="dcterms:modified">{modified}</meta></metadata>
<manifest>
<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="style" href="style.css" media-type="text/css"/>
{items}
</manifest><spine>{spine}</spine></package>
"""
KINDS = {"svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg"}


def clean_svg(text: str) -> str:
    """Return a picture as readers of books accept it: no DOCTYPE, no path without its line, no name of an image twice.

    >>> clean_svg('<!DOCTYPE svg PUBLIC "a" "b"><svg><path id="p"/><image id="i"/><path d="M0 0"/></svg>')
    '<svg><path d="" id="p"/><image/><path d="M0 0"/></svg>'
    """
    text = re.sub(r"<!DOCTYPE[^>]*>", "", text)
    text = re.sub(r"<path(?![^>]*\sd=)", '<path d=""', text)
    return re.sub(r'(<image\b[^>]*?)\s+id="[^"]*"', r"\1", text)


def package(path: Path, chapters: list[list[str]], pictures: dict[str, bytes], about: dict[str, str]) -> None:
    """Write an EPUB: chapters as (title, XHTML of its section), pictures by their address in the book."""
    items, files = [], {"style.css": STYLE}
    for k, (title, section) in enumerate(chapters):
        kinds = [kind for kind, mark in (("mathml", "<math"), ("svg", "<svg")) if mark in section]
        marked = f' properties="{" ".join(kinds)}"' if kinds else ""
        items.append(f'<item id="c{k}" href="chapter-{k}.xhtml" media-type="application/xhtml+xml"{marked}/>')
        files[f"chapter-{k}.xhtml"] = PAGE.format(title=html.escape(title), body=section)
    for k, (address, content) in enumerate(pictures.items()):
        ending = address.rpartition(".")[2]
        items.append(f'<item id="p{k}" href="{address}" media-type="{KINDS[ending]}"/>')
        files[address] = clean_svg(content.decode()) if ending == "svg" else content
    lines = "".join(f'<li><a href="chapter-{k}.xhtml">{html.escape(c[0])}</a></li>' for k, c in enumerate(chapters))
    contents = f'<nav epub:type="toc"><h1>{about["title"]}</h1><ol>{lines}</ol></nav>'
    files["nav.xhtml"] = PAGE.format(title=about["title"], body=contents)
    spine = "".join(f'<itemref idref="c{k}"/>' for k in range(len(chapters)))
    files["book.opf"] = PACKAGE.format(**about, items="\n".join(items), spine=spine)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        book.writestr("META-INF/container.xml", CONTAINER)
        for name, content in files.items():
            book.writestr(f"book/{name}", content)


def about() -> dict[str, str]:
    """Return what the book says of itself in its citation."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "name": NAME,
        "version": cited["version"],
        "title": cited["title"],
        "author": cited["authors"][0]["name"],
        "rights": cited["license"],
        "modified": f"{cited['date-released']}T00:00:00Z",
    }


def main(folder: str) -> None:
    """Open the one page, print it, and take it apart."""
    from playwright.sync_api import sync_playwright

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.set_default_timeout(600_000)  # three thousand formulas
        tab.goto((HTML / "one-page.html").as_uri(), wait_until="domcontentloaded")
        tab.evaluate(TYPESET)
        tab.pdf(
            path=out / f"{NAME}.pdf",
            format="A4",
            print_background=True,
            margin=dict.fromkeys(("top", "bottom", "left", "right"), "18mm"),
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            outline=True,
            tagged=True,
        )
        found = tab.evaluate(CHAPTERS)
        browser.close()
    root = HTML.as_uri() + "/"
    pictures = {name: (HTML / address.removeprefix(root)).read_bytes() for address, name in found["pictures"]}
    package(out / f"{NAME}.epub", found["chapters"], pictures, about())
    print(*(f"{path}: {path.stat().st_size / 1e6:.1f} MB" for path in sorted(out.glob(f"{NAME}.*"))), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
