"""Words of the glossary: the first use in a chapter's prose links, and nothing else does."""

import re

import pytest
from sphinx.application import Sphinx

from book._ext import glossary_links
from book.publish import execution

CHAPTER = """# Heads and their keys

Two heads share a Key. `key` and $key$ stay; the keys of a second line stay too, and so do monkeys and a semi-bias.

| key | head |
|---|---|
| key | head |

```{code-cell} ipython3
head = 1
```
"""
GLOSSARY = "# Glossary\n\n```{glossary}\nhead\n    A head.\n\nkey\n    A key.\n\nbias\n    A bias.\n```\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> str:
    source = tmp_path_factory.mktemp("source")
    (source / "index.md").write_text(CHAPTER)
    (source / "glossary.md").write_text(GLOSSARY)
    app = Sphinx(
        str(source),
        None,
        str(source / "_html"),
        str(source / "_doctrees"),
        "html",
        status=None,
        warning=None,
        confoverrides={
            "extensions": ["myst_parser", "book._ext.glossary_links"],
            "html_theme": "basic",
            "source_suffix": {".md": "markdown"},  # another test may have had its own
            "myst_enable_extensions": ["dollarmath"],
        },
    )
    app.build()
    return (source / "_html" / "index.html").read_text()


def test_the_first_use_links_and_nothing_else(made):
    linked = re.findall(r'<a class="to-glossary[^"]*" href="([^"]+)">(.*?)</a>', made)
    assert linked == [("glossary.html#term-head", "heads"), ("glossary.html#term-key", "Key")]


def test_longer_words_win_and_parts_of_words_do_not_count():
    words = glossary_links.pattern(["head", "induction head", "bias"])
    assert [m[1] for m in words.finditer("An induction head, a semi-bias, ahead, heads")] == ["induction head", "head"]


def test_every_chapter_links_to_the_glossary(html):
    for name, path in execution.pages().items():
        built = html / "book" / f"{name}.html"
        if "{code-cell}" in path.read_text() and built.exists():
            page = built.read_text()
            assert 'class="to-glossary' in page or "glossary.html#term-" in page, name
