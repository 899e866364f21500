"""What was known elsewhere, as the built pages show it: below proven statements, at findings, and in one table."""

import re
from collections import Counter

import pytest

from book.publish import execution, known

ENTRIES = {entry.label: entry for entry in known.entries()}
STATED = {s.label: s for page in execution.pages().values() for s in known.statements(page) if s.label in ENTRIES}


@pytest.fixture(scope="module")
def pages(html) -> dict[str, str]:
    names = {statement.page for statement in STATED.values()}
    return {name: (html / "book" / f"{name}.html").read_text(encoding="utf-8") for name in names}


@pytest.fixture(scope="module")
def table(pages) -> str:
    return re.search(r'<table class="known-table.*?</table>', pages["findings"], re.DOTALL)[0]


def test_every_finding_and_proven_statement_has_its_line_and_a_definition_has_none(pages):
    for label, statement in STATED.items():
        stands = pages[statement.page].split(f'id="{label}"')[1]
        assert re.search(r'class="known-degree ([a-z-]+)', stands)[1] == ENTRIES[label].degree.replace(" ", "-"), label
    for name, page in pages.items():
        proven = sum(statement.page == name and statement.kind in known.PROVEN for statement in STATED.values())
        assert page.count('<p class="known-elsewhere">') == proven


def test_what_a_page_has_said_it_does_not_say_again(pages):
    for page in pages.values():
        lines = re.findall(r'<span class="known-elsewhere".{200}', page, re.DOTALL)
        said = [re.sub(r"<[^>]+>", "", line.split(">", 1)[1]) for line in lines if "As above" not in line]
        assert len(said) == len(set(said))


def test_the_table_lists_what_was_not_found_first_and_links_to_all(pages, table):
    degrees = Counter(ENTRIES[label].degree for label in STATED)
    heads = re.findall(r'class="known-head.*?<strong>(.*?)</strong>', table, re.DOTALL)
    first = ("not found", "partly", "known", "one code base")
    assert heads == [f"{known.DEGREES[degree]}: {degrees[degree]}" for degree in first]
    counts = ", ".join(f"{degrees[degree]} {degree}" for degree in known.DEGREES)
    assert f"Of {len(STATED)} findings and proven statements: {counts}." in pages["findings"]
    rows = {(e.degree, e.sentence, e.date, e.searched) for e in map(ENTRIES.get, STATED)}
    assert table.count("<tr") == 1 + len(heads) + len(rows)
    for label, statement in STATED.items():
        assert f"#{label}" in table or any(
            s.title == statement.title and f"#{other}" in table for other, s in STATED.items()
        )
