"""The fields of a class on the package's pages: each once, with its type, two that go together in one name."""

import re

from sphinx.application import Sphinx

CONFIG = {
    "extensions": ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "book._ext.api_pages"],
    "html_theme": "basic",
    "source_suffix": {".rst": "restructuredtext"},
    "root_doc": "index",
    "autodoc_typehints": "description",
    "napoleon_use_ivar": True,
    "napoleon_google_docstring": False,
    "suppress_warnings": ["app"],
}


def test_a_class_lists_its_fields_once(tmp_path):
    (tmp_path / "index.rst").write_text(
        "All\n===\n\n.. autoclass:: analysis.core.attention_layer.AttentionLayer\n\n"
        ".. autoclass:: analysis.models.families.row.Family\n   :members:\n\n"
        ".. autoclass:: analysis.plotting.ladder.Ladder\n   :members:\n\n"
        ".. autofunction:: analysis.core.scaling.scale_to_one\n",
        encoding="utf-8",
    )
    Sphinx(
        str(tmp_path),
        None,
        str(tmp_path / "html"),
        str(tmp_path / "trees"),
        "html",
        confoverrides=CONFIG,
        status=None,
        warning=None,
        freshenv=True,
    ).build()
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    layer, family, ladder, function = re.split(r'(?=<dl class="py (?:function|class))', page)[1:]
    assert "first_place" in family
    assert "<strong>first_place" not in family
    assert "<strong>name" in family
    assert "Alias for field" not in ladder
    assert ladder.count("<strong>trained") == 1
    words = " ".join(re.sub(r"<[^>]+>", " ", layer).split())
    variables = words.split("Variables :")[1].split("Raises :")[0]
    assert "W_Q , b_Q – (head, model, channel)" in variables
    assert "scale ( float ) – What" in variables
    assert "Parameters" not in words, "every field is described once, where the docstring describes it"
    assert [variables.count(f" {name} (") for name in ("scale", "mask", "soft_cap")] == [1, 1, 1]
    assert "Parameters" in function
