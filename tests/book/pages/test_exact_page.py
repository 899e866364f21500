"""What the page *Exact, and how one knows* is made of: a filter for a table, and the table of other libraries."""

import json
import re

import pytest

from book._ext import tables as conformance


def test_other_libraries_stand_in_a_table_with_what_the_suite_found_of_them(html):
    results = json.loads(conformance.RESULTS.read_text(encoding="utf-8"))
    page = (html / "book" / "exact.html").read_text(encoding="utf-8")
    (table,) = re.findall(r'<table class="conformance[^>]*>.*?</table>', page, re.DOTALL)
    head, *lines = (re.findall(r"<p>(.*?)</p>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL))
    shown = {(line[0], library): cell for line in lines for library, cell in zip(head[1:], line[1:], strict=True)}
    assert len(shown) == len(results)
    for one in results:
        cell = shown[one["quantity"], f"{one['library']} {one['version']}"]
        due = "exact" if one["exact"] else "not offered" if one["not_offered"] else "in part (error up to "
        assert cell.startswith(due)


@pytest.mark.browser
def test_the_filter_shows_the_first_rows_the_found_ones_or_all(html, browser):
    tab = browser.new_page()
    tab.goto((html / "book" / "exact.html").as_uri())
    form = tab.locator("form.table-filter")
    rows = form.locator("xpath=following::table[1]").locator("tbody tr")
    shown, said, count = rows.locator("visible=true"), form.locator("output"), rows.count()
    assert (shown.count(), said.inner_text()) == (10, f"10 of {count} rows")
    form.locator("[type=search]").fill("MISTRAL")
    assert 0 < shown.count() < 10
    assert all("mistral" in row.lower() for row in shown.all_inner_texts())
    form.locator("[type=search]").fill("no such family")
    assert (shown.count(), said.inner_text()) == (0, f"0 of {count} rows")
    form.locator("[type=search]").fill("")
    tab.get_by_label("all rows").check()
    assert (shown.count(), said.inner_text()) == (count, f"{count} of {count} rows")
    tab.close()
