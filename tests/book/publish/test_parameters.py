"""A chapter's parameters: read from the cell tagged so, set for one execution, and refused where there is none."""

import copy

import nbformat
import pytest
from myst_nb.core.read import read_myst_markdown_notebook

from book.publish import run
from tests.book.publish.test_execution import HEADER

CHAPTER = (
    HEADER
    + """
# Tiny

```{code-cell} ipython3
WIDTH = 3
```

```{code-cell} ipython3
:tags: [parameters]
MODEL = "gpt2"   # any GPT-2
TEXTS = None
DEVICE = "auto"
```

```{code-cell} ipython3
print(MODEL, DEVICE)
```
"""
)


@pytest.fixture
def notebook():
    return read_myst_markdown_notebook(CHAPTER, path="tiny.md")


def test_names_are_those_of_the_tagged_cell(notebook):
    assert run.parameters(notebook) == ["MODEL", "TEXTS", "DEVICE"]
    notebook.cells[2].metadata.pop("tags")
    assert run.parameters(notebook) == []


def test_values_are_set_in_a_cell_of_their_own_after_the_tagged_one(notebook):
    before = copy.deepcopy(notebook)
    injected = run.inject(notebook, {"MODEL": "my \"own\" 'model'", "DEVICE": "cpu"})
    assert notebook == before, "the notebook itself was changed"
    first, same = ([c.source for c in of.cells if c.cell_type == "code"][:2] for of in (injected, notebook))
    assert first == same
    new = injected.cells[3]
    assert new.metadata["tags"] == ["injected-parameters"]
    variables = {}
    exec(new.source, variables)
    assert {name: variables[name] for name in ("MODEL", "DEVICE")} == {"MODEL": "my \"own\" 'model'", "DEVICE": "cpu"}
    assert "TEXTS" not in variables
    nbformat.validate(injected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"WIDTH": "3"}, "no parameter WIDTH, .* it has MODEL, TEXTS, DEVICE"),
        ({"MODEL": "x", "SEED": "1", "DEPTH": "2"}, "no parameter DEPTH, SEED, so setting it would have no effect"),
    ],
)
def test_a_parameter_that_the_chapter_has_not_is_refused_by_name(notebook, values, message):
    with pytest.raises(LookupError, match=message):
        run.inject(notebook, values)
