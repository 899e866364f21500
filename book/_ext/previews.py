"""A term's definition, shown before its link is followed.

The text becomes the link's title, which a browser shows where the mouse rests; the style sheet shows it for the
keyboard. The titles of citations are sphinxcontrib-bibtex's own.
"""

from docutils import nodes

LONGEST = 280  # characters


def definitions(app, doctree):
    """Keep the first paragraph of each entry of the glossary, by its anchor."""
    texts = getattr(app.env, "definitions", {})
    for item in doctree.findall(nodes.definition_list_item):
        paragraph = next(item.findall(nodes.paragraph), None)
        for term in item.findall(nodes.term):
            if paragraph is not None and any(name.startswith("term-") for name in term["ids"]):
                texts.update(dict.fromkeys(term["ids"], _shortened(paragraph.astext())))
    app.env.definitions = texts


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"


def give_titles(app, doctree, docname):
    """Write the definition into the links that lead to it."""
    texts = getattr(app.env, "definitions", {})
    for link in doctree.findall(nodes.reference):
        anchor = link.get("refid") or link.get("refuri", "").partition("#")[2]
        if anchor in texts:
            link["reftitle"] = texts[anchor]


def setup(app):
    """Connect, after the links to the glossary are made."""
    app.connect("doctree-read", definitions)
    app.connect("doctree-resolved", give_titles, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
