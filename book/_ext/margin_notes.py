"""Notes in the margin of a story: what it cites, in full, and which section of the evidence holds a sentence up.

They stand beside the paragraph whose links they repeat, where the window is wide enough, and nowhere else: the links
in the text are the same. A source is noted once on a page, and so is a section.
"""

import posixpath
import re

from docutils import nodes

ADDRESS = re.compile(r"\s*(?:URL: )?https?://\S+")
STOP = re.compile(r"(?<!\b[A-Z])\. ")  # not after an initial
REFERENCES, EVIDENCE = "book/references", "book/evidence/"


def shorten(full: str) -> str:
    """Return authors, title and year of a reference, without its address and its place.

    Examples
    --------
    >>> shorten("Ann Ash, Bo Beech, and Cy Cedar. On rows: a study. In Proceedings of Rows. 2019. URL: https://a.b.")
    'Ann Ash and others, On rows: a study (2019)'
    >>> shorten("Su Jianlin. Bias. arXiv:2502.1, 2025.")
    'Su Jianlin, Bias (2025)'
    >>> shorten("Ann B. Ash and Cy D. Cedar. On rows. 2019.")
    'Ann B. Ash and Cy D. Cedar, On rows (2019)'
    """
    authors, rest = [*STOP.split(ADDRESS.sub("", full), maxsplit=1), ""][:2]
    title, _, place = rest.partition(". ")
    year = re.findall(r"\b(?:19|20)\d\d\b", place or rest)
    several = re.split(r", | and ", authors)
    who = authors if len(several) < 3 else f"{several[0]} and others"
    return f"{who}, {title.rstrip('.')}" + (f" ({year[-1]})" if year else "")


def place(app, docname: str, link: nodes.reference) -> tuple[str, str]:
    """Return the page and the anchor to which a link of a page leads; outside the book both are empty."""
    address = link.get("refuri", "")
    if not address or ":" in address:
        return "", ""
    page, _, anchor = address.partition("#")
    here = posixpath.dirname(app.builder.get_target_uri(docname))
    page = posixpath.normpath(posixpath.join(here, page)).removesuffix(".html")
    return page, anchor


def title_of(env, page: str, anchor: str) -> str:
    """Return the title of the section that holds an anchor; empty for the whole page, of which a note says nothing."""
    title = getattr(env, "titles_by_anchor", {}).get(page, {}).get(anchor, "")
    return "" if page not in env.titles or title == env.titles[page].astext() else title


def keep_titles(app, doctree):
    """Keep under each anchor of a page of evidence the title of its section."""
    if not app.env.docname.startswith(EVIDENCE):
        return
    titles = {}
    for node in doctree.findall(nodes.Element):
        section = node
        while section is not None and not isinstance(section, nodes.section):
            section = section.parent
        if section is not None:
            for anchor in node.get("ids", ()):
                titles[anchor] = section[0].astext()
    app.env.titles_by_anchor = {**getattr(app.env, "titles_by_anchor", {}), app.env.docname: titles}


def notes(app, docname: str, paragraph: nodes.paragraph) -> list[tuple[str, nodes.reference]]:
    """Return a line for each source and each section of the evidence to which a paragraph links, with its link."""
    found = []
    for link in paragraph.findall(nodes.reference):
        page, anchor = place(app, docname, link)
        if page == REFERENCES and link.get("reftitle"):
            found.append((shorten(link["reftitle"]), link))
        elif page.startswith(EVIDENCE) and (title := title_of(app.env, page, anchor)):
            found.append((f"Evidence: {title}", link))
    return found


def add_notes(app, doctree, docname):
    """Put the notes of each paragraph of a story before it."""
    if app.builder.name != "html" or docname.startswith(EVIDENCE) or not is_story(app.env, docname):
        return
    seen = set()
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if not in_running_text(paragraph):
            continue
        lines = {text: link for text, link in notes(app, docname, paragraph) if text not in seen}
        seen |= lines.keys()
        if lines:
            box = nodes.container(classes=["margin", "beside"])
            box += [
                nodes.paragraph("", "", nodes.reference("", text, internal=True, refuri=link["refuri"]))
                for text, link in lines.items()
            ]
            paragraph.parent.insert(paragraph.parent.index(paragraph), box)


def in_running_text(paragraph: nodes.paragraph) -> bool:
    """Say whether a paragraph stands in sections alone, so not in a list, a box or a solution that unfolds."""
    box = paragraph.parent
    while isinstance(box, nodes.section):
        box = box.parent
    return isinstance(box, nodes.document) and box is not paragraph.parent


def is_story(env, docname: str) -> bool:
    """Say whether a page is one of the numbered chapters; the evidence stands in a folder of its own."""
    return bool(env.toc_secnumbers.get(docname, {}).get(""))


def setup(app):
    """Connect, once links and titles are resolved."""
    app.connect("doctree-read", keep_titles)
    app.connect("doctree-resolved", add_notes, priority=960)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
