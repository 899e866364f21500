"""Which pages Sphinx reads again: those executed since they were last read, and those that show others' verdicts."""

import pytest

from analysis.core.files import write_json
from book.publish import execution
from tests.book.pages.book_pages import small_book

CONFIG = {"extensions": ["myst_nb", "book._ext.book_ext", "book._ext.claims"], "root_doc": "book/one"}
PAGES = {
    "one": "# One\n",
    "two": "# Two\n",
    "claims": "# Claims\n\n```{claims-table}\n```\n",
    "findings": "# Findings\n\n{evidence}`K-15`\n",
}
EXECUTED = {"one", "two"}


def leave_execution(page: str, digest: str) -> None:
    write_json(execution.executed_path(page), {"digest": digest, "cells": []})


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return a function that builds a small book and gives the names of the pages that were read for it."""
    monkeypatch.setattr(execution, "BUILD", tmp_path / "build")
    monkeypatch.setattr(execution, "environment", lambda: None)
    source = tmp_path / "source"
    (source / "book").mkdir(parents=True)
    for name, text in PAGES.items():
        (source / "book" / f"{name}.md").write_text(text)
    for page in EXECUTED:
        leave_execution(page, "first")

    def read() -> set[str]:
        names = set()
        app = small_book(source, tmp_path / "html", **CONFIG)
        app.connect("source-read", lambda app, docname, content: names.add(docname.removeprefix("book/")))
        app.build()
        return names

    return read


def test_what_was_executed_or_edited_is_read_again_and_with_an_execution_the_verdicts(read, tmp_path, monkeypatch):
    assert read() == set(PAGES)
    assert read() == set(), "nothing was executed"
    leave_execution("two", "second")
    assert read() == {"two", "claims", "findings"}
    write_json(execution.executed_path("two"), {"digest": "second", "cells": [{"source": "x", "outputs": []}]})
    assert "two" in read(), "under the same digest the outputs differ"
    execution.executed_path("one").unlink()
    assert read() == {"one", "claims", "findings"}
    (tmp_path / "source" / "book" / "two.md").write_text("# Two, edited\n")
    assert read() == {"two"}, "what was edited and not executed is read alone"
    assert read() == set(), "what was read with the present execution is up to date"
