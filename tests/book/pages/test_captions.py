"""Captions of tables in the code that pages show: left out there, and nothing else with them."""

import pytest
from docutils import nodes

from book._ext import captions

LONG = 'publish.table(\n    f(x),\n    caption=(f"One {n}. "\n        "\u201cTwo\u201d (2)."), form=".1f")'


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (LONG, 'publish.table(f(x), caption=..., form=".1f")'),
        (
            f'publish.table(\n    {"f" * 60}(x),\n    "One",\n    {{"a": ".1f"}})',
            f'publish.table(\n    {"f" * 60}(x), ...,\n    {{"a": ".1f"}})',
        ),
        ('publish.table(frame, ("\u00fc" "b"), {"a": "b"})', 'publish.table(frame, ..., {"a": "b"})'),
        (
            'a = 1\npublish.table(f(a), "One")\npublish.table(g(a), caption="Two")',
            "a = 1\npublish.table(f(a), ...)\npublish.table(g(a), caption=...)",
        ),
        ("publish.table(**known)", "publish.table(**known)"),
        ("%time publish.table(f, 'a')",) * 2,
    ],
)
def test_captions_go_and_the_rest_stays(source, shown):
    assert captions.without_captions(source) == shown


def test_cells_of_the_document_are_shortened_and_other_code_is_not():
    cell, other = nodes.container(classes=["cell_input"]), nodes.container()
    cell += nodes.literal_block(LONG, LONG)
    other += nodes.literal_block(LONG, LONG)
    document = nodes.section("", cell, other)
    captions.shorten(None, document)
    assert cell.astext() == captions.without_captions(LONG)
    assert other.astext() == LONG


@pytest.mark.parametrize(
    ("text", "wraps"),
    [
        ("Recomputed just now from gpt2; agrees with the record.", True),
        ("one  gap,\nand no other", True),
        ("skip two  {'d': 1.0}\nsimilar   {'c': 1.0}", False),
    ],
)
def test_printed_lines_wrap_unless_they_stand_in_columns(text, wraps):
    code = nodes.literal_block(text, text, classes=["output", "stream"])
    captions.shorten(None, nodes.section("", nodes.container("", code, classes=["cell_output"])))
    assert ("wraps" in code["classes"]) == wraps
