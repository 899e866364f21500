"""What the page *Exact, and how one knows* is made of: a filter for a table, and the table of other libraries."""

import json
import re

import pytest
from sphinx.application import Sphinx

from book._ext import tables as conformance
from tests.book.pages.book_pages import ROOT

ROWS = "".join(f"<tr><th>family {k}</th><td>{'sinks' if k == 7 else 'none'}</td></tr>" for k in range(9))
PAGE = f"""# Families

<table><tbody><tr><td>another</td></tr></tbody></table>

```{{table-filter}} 3
Family
```

<table class="families"><thead><tr><th>family</th></tr></thead><tbody>{ROWS}</tbody></table>

```{{conformance-table}}
What others *give*.
```
"""
RESULTS = [
    {
        "library": "one",
        "version": "1.0",
        "quantity": "scores",
        "exact": True,
        "off": 0.0,
        "not_offered": False,
        "note": "",
    },
    {
        "library": "other",
        "version": "2.0",
        "quantity": "keys",
        "exact": False,
        "off": 0.02,
        "not_offered": False,
        "note": "centred, as documented",
    },
]


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a function that builds the page, with results of the suite or without."""

    def build(results=None):
        source, out = tmp_path / "source", tmp_path / "out"
        source.mkdir()
        (source / "index.md").write_text(PAGE)
        monkeypatch.setattr(conformance, "RESULTS", tmp_path / "conformance.json")
        if results is not None:
            (tmp_path / "conformance.json").write_text(json.dumps(results))
        config = {
            "source_suffix": {".md": "myst-nb"},
            "extensions": ["myst_nb", "book._ext.tables"],
            "nb_execution_mode": "off",
            "html_theme": "basic",
            "root_doc": "index",
            "html_static_path": [str(ROOT / "book" / "assets" / "table-filter.js")],
        }
        Sphinx(
            str(source),
            None,
            str(out),
            str(tmp_path / "trees"),
            "html",
            confoverrides=config,
            status=None,
            warning=None,
        ).build()
        return out / "index.html"

    return build


def test_other_libraries_stand_in_a_table_where_the_suite_left_results(build):
    page = build(RESULTS).read_text(encoding="utf-8")
    assert "What others <em>give</em>." in page
    (table,) = re.findall(r'<table class="conformance[^>]*>.*?</table>', page, re.DOTALL)
    lines = [re.findall(r"<p>(.*?)</p>", row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    assert lines[0] == ["quantity", "one 1.0", "other 2.0"]
    assert lines[1:] == [
        ["scores", "exact", "not offered"],
        ["keys", "not offered", "in part (error up to 2e-02): centred, as documented"],
    ]


def test_nothing_of_them_is_said_without_results(build):
    page = build().read_text(encoding="utf-8")
    assert "What others" not in page
    assert 'class="conformance' not in page


@pytest.mark.browser
def test_the_filter_shows_the_first_rows_the_found_ones_or_all(build, browser):
    tab = browser.new_page()
    tab.goto(build().as_uri())
    rows, said = tab.locator("table.families tbody tr"), tab.locator("form.table-filter output")
    shown = rows.locator("visible=true")
    assert (shown.count(), said.inner_text()) == (3, "3 of 9 rows")
    tab.get_by_label("Family").fill("SINKS family")
    assert shown.all_inner_texts() == ["family 7\tsinks"]
    tab.get_by_label("Family").fill("no such family")
    assert (shown.count(), said.inner_text()) == (0, "0 of 9 rows")
    tab.get_by_label("Family").fill("")
    tab.get_by_label("all rows").check()
    assert (shown.count(), said.inner_text()) == (9, "9 of 9 rows")
    tab.close()
