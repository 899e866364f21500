"""What was known elsewhere, as it is shown: below proven statements, at findings, and in one table."""

import re
import sys

import pytest
from sphinx.application import Sphinx

from book.publish import known

SUFFIX = {".md": "markdown"}  # Sphinx keeps in its defaults what the applications of other tests have set
CONFIG = {
    "extensions": ["myst_parser", "sphinxcontrib.bibtex", "book._ext.known_elsewhere"],
    "source_suffix": SUFFIX,
    "bibtex_bibfiles": ["book/references.bib"],
    "bibtex_reference_style": "author_year",
    "root_doc": "book/index",
    "html_theme": "basic",
    "myst_enable_extensions": ["dollarmath"],
    "numfig": True,
    "suppress_warnings": ["app"],
}  # docutils remembers what the Sphinx of another test registered
SOURCE = "@misc{doe2020,\n  author = {Doe, Jane},\n  title = {On rows},\n  year = {2020}\n}\n"
INDEX = """# All

1. **Rows $x$ fall.** Always. {known}`f-one, f-two, f-three`
2. **The code is odd.** {known}`f-code`

```{toctree}
other
```

```{known-table}
```

```{bibliography}
```
"""
OTHER = "# Other\n\n```{prf:theorem} A name\n:label: thm\nTrue.\n```\n\n```{prf:definition} D\n:label: d\nSo.\n```\n"
ENTRIES = """
- {label: f-one, degree: known, date: 2026-01-02, sentence: 'By {cite:t}`doe2020`, for $n$ rows.'}
- {label: f-two, degree: not found, date: 2026-01-02, sentence: Nobody., searched: pages.}
- {label: f-three, degree: not found, date: 2026-01-02, sentence: Nobody., searched: pages.}
- {label: f-code, degree: one code base, date: 2026-01-02, sentence: Released., searched: the code.}
- {label: thm, degree: partly, date: 2026-02-03, sentence: 'Half of it {cite}`doe2020`.'}
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a function that builds a book of two pages, and gives both and the warnings."""

    def build(index: str = INDEX, other: str = OTHER) -> tuple[str, str, str]:
        folder = tmp_path / "book"
        folder.mkdir(exist_ok=True)
        for name, text in (
            ("index.md", index),
            ("other.md", other),
            ("references.bib", SOURCE),
            ("known_elsewhere.yml", ENTRIES),
        ):
            (folder / name).write_text(text, encoding="utf-8")
        (tmp_path / "_toc.yml").write_text("root: book/index\nchapters:\n- file: book/other\n", encoding="utf-8")
        monkeypatch.setattr(known, "ROOT", tmp_path)
        monkeypatch.setattr(known, "FILE", folder / "known_elsewhere.yml")
        monkeypatch.setattr(known.entries.__wrapped__, "__defaults__", (folder / "known_elsewhere.yml",))
        known.entries.cache_clear()
        with (tmp_path / "warnings").open("w") as stream:
            Sphinx(
                str(tmp_path),
                None,
                str(tmp_path / "html"),
                str(tmp_path / "doctrees"),
                "html",
                confoverrides=CONFIG,
                status=None,
                warning=stream,
                freshenv=True,
            ).build()
        pages = (tmp_path / "html" / "book" / name for name in ("index.html", "other.html"))
        return *(page.read_text(encoding="utf-8") for page in pages), (tmp_path / "warnings").read_text()

    yield build
    known.entries.cache_clear()


def plain(html: str) -> str:
    """Return the words of a piece of HTML."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_finding_has_its_lines_each_once(build):
    index, _, warnings = build()
    item = re.search(r"<ol.*?</ol>", index, re.DOTALL)[0]
    assert "Known elsewhere. By Doe [ 2020 ]" in plain(item).replace("( ", "[ ")
    assert plain(item).count("Not found elsewhere. Nobody. Searched on 2 January 2026: pages.") == 1
    assert all(f'id="{label}"' in item for label in ("f-one", "f-two", "f-three"))
    assert "WARNING" not in warnings


def test_what_a_page_has_said_it_does_not_say_again(build):
    index, _, warnings = build(index=INDEX.replace("f-two, f-three`", "f-two`\n2. **Columns rise.** {known}`f-three`"))
    items, table = re.search(r"<ol.*?</ol>", index, re.DOTALL)[0], re.search(r"<table.*?</table>", index, re.DOTALL)[0]
    assert plain(items).count("Nobody.") == 1
    assert 'href="#f-two"' in items
    assert "Columns rise. Not found elsewhere. As above ." in plain(items)
    (row,) = (row for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL) if "Nobody." in row)
    assert all(f"#{label}" in row for label in ("f-two", "f-three"))
    assert "WARNING" not in warnings


def test_a_proven_statement_ends_with_its_line_and_a_definition_has_none(build):
    _, other, _ = build()
    theorem, definition = re.split(r'(?=<div class="[^"]*definition)', other)[:2]
    assert "True. Partly known elsewhere. Half of it [ Doe, 2020 ] ." in plain(theorem)
    assert "known-elsewhere" not in definition


def test_the_table_lists_what_was_not_found_first_and_links_to_all(build):
    index, _, _ = build()
    table = re.search(r"<table.*?</table>", index, re.DOTALL)[0]
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]
    assert [plain(row).split(".")[0] for row in rows] == [
        "Not found elsewhere: 2",
        "Rows \\(x\\) fall",
        "Partly known elsewhere: 1",
        "A name",
        "Known elsewhere: 1",
        "Rows \\(x\\) fall",
        "About one code base that no other source examines: 1",
        "The code is odd",
    ]
    assert 'href="#f-two"' in rows[1]
    assert 'href="#f-one"' in rows[5]
    assert 'href="other.html#thm"' in rows[3]
    assert "Theorem 1" in plain(rows[3])
    assert "2026-02-03" in plain(rows[3])
    assert "Of 5 findings and proven statements: 1 known, 1 partly, 2 not found, 1 one code base." in plain(index)


def test_a_day_that_all_entries_share_is_said_once(build, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ENTRIES", ENTRIES.replace("2026-02-03", "2026-01-02"))
    index, _, _ = build()
    assert "1 one code base. All were searched for on 2 January 2026." in plain(index)
    assert "2026-01-02" not in plain(index)


def test_what_has_no_entry_is_a_warning(build):
    assert "no entry for f-nine" in build(INDEX.replace("f-two", "f-nine"))[2]
    warnings = build(other=OTHER.replace(":label: thm", ":label: unknown"))[2]
    assert "no entry for the prf:theorem 'unknown'" in warnings
