"""The table of costs has columns for a GPU where one measured a chapter, and says so where none did."""

import pytest
from sphinx.application import Sphinx

from book._ext import costs

CPU = {"machine": "two cores", "chapters": {"one": {"cpu_seconds": 3.0, "peak_mib": 1200}}}
GPU = {"machine": "a card", "chapters": {"one": {"seconds": 5.0, "gpu_mib": 800}}}


@pytest.mark.parametrize(
    ("measured", "columns", "said"),
    [({"cpu": CPU}, 3, "no chapter was measured on a GPU"), ({"cpu": CPU, "gpu": GPU}, 5, "GPU: a card.")],
)
def test_columns_of_a_gpu(tmp_path, monkeypatch, measured, columns, said):
    monkeypatch.setattr(costs, "present", lambda: measured)
    monkeypatch.setattr(costs, "chapters", lambda: ["one", "two"])
    monkeypatch.setattr(costs, "path", lambda name: tmp_path / name)
    (tmp_path / "index.rst").write_text("Costs\n=====\n\n.. chapter-costs::\n", encoding="utf-8")
    Sphinx(
        str(tmp_path),
        None,
        str(tmp_path / "html"),
        str(tmp_path / "trees"),
        "html",
        status=None,
        warning=None,
        confoverrides={
            "extensions": ["book._ext.costs"],
            "html_theme": "basic",
            "root_doc": "index",
            "source_suffix": {".rst": "restructuredtext"},
        },
        freshenv=True,
    ).build()
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert page.count("<th ") == columns
    assert said in page
    assert page.count("not measured") == columns - 1
