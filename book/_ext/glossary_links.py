"""The first time a chapter uses a word of the glossary, the word links to it.

A word that has other meanings in plain English (the setting ``glossary_by_hand``) is linked only where the author
writes ``{term}``: a link goes to the term that is meant, or is not made.
"""

import re
from pathlib import Path

from docutils import nodes

from book.publish import execution

NO_PROSE = "title caption reference literal literal_block math math_block raw table term comment"
SKIPPED = tuple(getattr(nodes, name) for name in NO_PROSE.split())
SKIPPED_CLASSES = {"cell_output", "cell_input", "verdict", "known-elsewhere"}


def terms(env) -> dict[str, tuple[str, str]]:
    """Return the words of the glossary: name to page and anchor."""
    found = env.domaindata["std"]["objects"].items()
    return {name: place for (kind, name), place in found if kind == "term"}


def pattern(names) -> re.Pattern:
    """Match a word of the glossary, longer ones first; a plural s belongs to the word, capitals do not matter."""
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({words})s?(?![\w-])", re.IGNORECASE)


def is_prose(text: nodes.Text) -> bool:
    """Say whether a text stands in a paragraph of the page's prose."""
    node, in_paragraph = text.parent, False
    while node is not None:
        if isinstance(node, SKIPPED) or SKIPPED_CLASSES & set(getattr(node, "attributes", {}).get("classes", ())):
            return False
        in_paragraph = in_paragraph or isinstance(node, nodes.paragraph)
        node = node.parent
    return in_paragraph


def link(app, doctree, docname):
    """Turn the first use of each word into a link."""
    by_hand = {name.casefold() for name in app.config.glossary_by_hand}
    known = {name: place for name, place in terms(app.env).items() if name.casefold() not in by_hand}
    source = Path(app.env.doc2path(docname))
    if not known or app.builder.format != "html" or docname in {place[0] for place in known.values()}:
        return
    if source.suffix != ".ipynb" and not execution.is_notebook(source):
        return
    folded = {name.casefold(): place for name, place in known.items()}
    seen, words = set(), pattern(known)
    for text in [t for t in doctree.findall(nodes.Text) if is_prose(t)]:
        made, last = [], 0
        for match in words.finditer(text):
            page, anchor = folded[match[1].casefold()]
            if anchor in seen:
                continue
            seen.add(anchor)
            address = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
            made += [
                nodes.Text(text[last : match.start()]),
                nodes.reference("", match[0], internal=True, refuri=address, classes=["to-glossary"]),
            ]
            last = match.end()
        if made:
            text.parent.replace(text, [*made, nodes.Text(text[last:])])


def setup(app):
    """Connect, once everything else is resolved."""
    app.add_config_value("glossary_by_hand", [], "env")
    app.connect("doctree-resolved", link, priority=900)
