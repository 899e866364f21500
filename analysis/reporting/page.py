"""The report as one page of HTML, which needs no other file and no network, and prints on paper."""

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from analysis.plotting.attention_viewer import AttentionViewer, fill

TEMPLATE = Path(__file__).with_name("page.html")
SVG_NAMES = re.compile(r'(id="|href="#|url\(#)([^")]+)')
IMAGE_NAME = re.compile(r' id="image[0-9a-f]+"')  # made of what the image shows, so two colour bars alike share one


class Statement(NamedTuple):
    """A sentence that begins with its subject."""

    subject: str
    rest: str

    def __str__(self) -> str:
        return self.subject + self.rest


@dataclass(frozen=True)
class Section:
    """A heading, what is seen in a sentence or two, and what shows it."""

    title: str
    seen: str
    figure: Figure | None = None
    alt: str = ""
    caption: str = ""
    rows: Sequence[Mapping[str, str]] = ()
    """A table: a mapping of column names to cells for each row."""
    chapters: Mapping[str, str] = field(default_factory=dict)
    """Names of the book's pages that explain it, with an anchor where one passage does, and their titles."""
    viewer: AttentionViewer | None = None
    said: Sequence[Statement | str] = ()
    """A list of sentences below what is seen."""


def render(
    title: str, lead: str, sections: Sequence[Section], book: str | None, files: Mapping[str, str] | None = None
) -> str:
    """Return the page: it begins with what it found, so the lead stands below the first section.

    Chapters are linked where ``book`` says that the book's pages lie; without it they are named only, so that the page
    can be sent as it is. ``files`` are texts by file name, which the page carries and hands out.

    Examples
    --------
    >>> page = render("A model", "Read on.", [Section("Biases", "There are none.")],
    ...               "..")
    >>> "<h2 id=\\"s1\\">Biases</h2>" in page and "http" not in page
    True
    """
    contents = "".join(f'<li><a href="#s{i}">{_text(section.title)}</a></li>' for i, section in enumerate(sections, 1))
    first, *rest = (_section(i, section, book) for i, section in enumerate(sections, 1))
    return fill(
        TEMPLATE.read_text(encoding="utf-8"),
        {
            "TITLE": _text(title),
            "FIRST": first,
            "LEAD": _text(lead),
            "CONTENTS": contents,
            "BODY": "".join(rest) + _files(files or {}),
        },
    )


def _files(files: Mapping[str, str]) -> str:
    links = " · ".join(
        f'<a download="{_text(name)}" href="data:text/plain;base64,{base64.b64encode(text.encode()).decode()}">'
        f"{_text(name)}</a>"
        for name, text in files.items()
    )
    return f'<p class="files">In this page as well: {links}</p>' if links else ""


def _section(number: int, section: Section, book: str | None) -> str:
    parts = [f'<section><h2 id="s{number}">{_text(section.title)}</h2><p>{_text(section.seen)}</p>']
    if section.said:
        parts.append("<ul>" + "".join(f"<li>{_emphasise(sentence)}</li>" for sentence in section.said) + "</ul>")
    if section.figure is not None:
        parts.append(
            f'<figure role="group">{_svg(section.figure, number, section.alt)}'
            f"<figcaption>{_text(section.caption)}</figcaption></figure>"
        )
    if section.viewer is not None:
        parts.append(section.viewer.html)
    if section.rows:
        parts.append(_table(section.rows, section.title))
    if section.chapters:
        links = " · ".join(
            f'<a href="{_text(book)}/{_text(_address(page))}">{_text(name)}</a>'
            if book
            else f"<cite>{_text(name)}</cite>"
            for page, name in section.chapters.items()
        )
        parts.append(f'<p class="chapters">Explained in: {links}</p>')
    return "".join([*parts, "</section>"])


def _svg(figure: Figure, number: int, alt: str) -> str:
    """Return a figure as SVG with names of its own, since those of two figures in one page would be taken for one."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = IMAGE_NAME.sub("", buffer.getvalue())  # nothing refers to it
    drawing = SVG_NAMES.sub(lambda name: f"{name[1]}f{number}-{name[2]}", drawing[drawing.index("<svg") :])
    return drawing.replace("<svg", f'<svg role="img" aria-label="{_text(alt)}"', 1)


def _table(rows: Sequence[Mapping[str, str]], label: str) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_text(str(cell))}</td>" for cell in row.values()) + "</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{_text(label)}"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _address(page: str) -> str:
    """Return the file of a page, with its anchor.

    >>> _address("notation"), _address("notation#the-origin")
    ('notation.html', 'notation.html#the-origin')
    """
    name, mark, anchor = page.partition("#")
    return f"{name}.html{mark}{anchor}"


def _emphasise(sentence: Statement | str) -> str:
    """Write a sentence with its subject in bold, where it is known."""
    if isinstance(sentence, str):
        return _text(sentence)
    return f"<strong>{_text(sentence.subject)}</strong>{_text(sentence.rest)}"


def _text(text: str) -> str:
    return html.escape(text, quote=True)
