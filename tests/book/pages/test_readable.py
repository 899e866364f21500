"""A page's text as it reads in a downloaded notebook."""

from types import SimpleNamespace

import nbformat
import pytest
from pybtex.database import Entry, Person

from book._ext import readable


def entry(year: str, *names: str) -> Entry:
    return Entry("article", fields={"year": year}, persons={"author": [Person(name) for name in names]})


@pytest.fixture
def env():
    cited = [
        SimpleNamespace(key="one", entry=entry("2021", "Dong, Yihe", "Cordonnier, J.", "Loukas, A.")),
        SimpleNamespace(key="two", entry=entry("2024", "Lad, Vedang")),
    ]
    domains = {
        "cite": SimpleNamespace(citations=cited),
        "math": SimpleNamespace(equations={"an-equation": ("book/page", 4, None)}),
        "std": SimpleNamespace(
            labels={"fig-one": ("book/page", "fig-one", "A caption"), "a-section": ("book/page", "a-section", "Words")}
        ),
    }
    return SimpleNamespace(
        get_domain=domains.__getitem__,
        titles={"book/notation": SimpleNamespace(astext=lambda: "Notation")},
        toc_fignumbers={"book/page": {"figure": {"fig-one": (3, 2)}, "proposition": {"prop-one": (3, 1)}}},
        proof_list={"prop-one": {"docname": "book/page", "realtype": "proposition"}},
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{glue:text}`a-share:.2f` nats", "0.25 nats"),
        ("{glue:text}`a-name`", "gpt2-mini"),
        ("{glue:text}`none:.2f`", "nan"),
        ("{glue:text}`no`", "`no`"),
        ("{cite}`one,two`", "(Dong et al. 2021; Lad 2024)"),
        ("{cite:t}`two`", "Lad (2024)"),
        ("{numref}`fig-one`", "Fig. 3.2"),
        ("{ref}`a-section`", "“Words”"),
        ("{ref}`here <a-section>`", "here"),
        ("{eq}`an-equation`", "(4)"),
        ("{prf:ref}`prop-one`", "Proposition 3.1"),
        ("{doc}`notation`", "“Notation”"),
        ("{term}`k-mers <k-mer>`", "k-mers"),
        ("{mod}`analysis.maps`", "`analysis.maps`"),
        ("$$\nx\n$$ (an-equation)", "$$\nx\n$$\n(4)"),
        ("(a-label)=\n## A heading", "## A heading"),
        ("% a remark\nText", "Text"),
        ("```{prf:theorem} Rank\n:label: thm\n\nIt holds.\n```", "**Theorem (Rank).**\n\n\nIt holds."),
        ("```{prf:proof}\nObvious.\n```", "**Proof.**\n\nObvious."),
        ("```{solution} the-exercise\n:class: dropdown\nSo.\n```", "**Solution.**\n\nSo."),
        ("```{admonition} Notation\n:class: note\nRows.\n```", "**Notation.**\n\nRows."),
        ("```{viewer} score\n:name: fig-a\nRows.\n```", "**On the page you can play with this picture.**\n\nRows."),
        ("```python\n(x)=\n```", "```python\n(x)=\n```"),
        ("````{exercise} One\nSo\n```console\n$ make\n```\n````", "**Exercise (One).**\n\nSo\n```console\n$ make\n```"),
    ],
)
def test_roles_and_directives_become_words(env, text, words):
    assert readable.readable(text, env, {"a-share": 0.25, "a-name": "gpt2-mini", "none": "nan"}) == words


def test_numbers_are_read_from_what_the_cells_glued():
    glued = [
        nbformat.v4.new_output(
            "display_data", {"application/papermill.record/text/plain": text}, metadata={"scrapbook": {"name": name}}
        )
        for name, text in [("share", "0.5"), ("name", "'mini'"), ("layers", "6")]
    ]
    cells = [nbformat.v4.new_code_cell("glue()", outputs=glued), nbformat.v4.new_markdown_cell("Text")]
    assert readable.numbers(nbformat.v4.new_notebook(cells=cells)) == {"share": 0.5, "name": "mini", "layers": 6}
