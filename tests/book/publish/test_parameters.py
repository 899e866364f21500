"""The parameters of a chapter: found in its cell, and set for one execution."""

import nbformat
import pytest

from book.publish import parameters


@pytest.fixture
def notebook():
    """A page as the reader of the book gives it: its prose has no tags."""
    cells = [nbformat.v4.new_markdown_cell("# Title"),
             nbformat.v4.new_code_cell('MODEL = "gpt2"  # any\nDEVICE = "auto"', metadata={"tags": ["parameters"]}),
             nbformat.v4.new_code_cell("print(MODEL, DEVICE)")]
    return nbformat.v4.new_notebook(cells=cells)


def test_the_names_are_those_that_the_cell_assigns(notebook):
    assert parameters.names(notebook) == ["MODEL", "DEVICE"]


def test_values_come_in_a_cell_after_the_parameters(notebook):
    sources = [cell.source for cell in parameters.inject(notebook, {"MODEL": "my bert's"}).cells]
    assert sources[:2] == [cell.source for cell in notebook.cells[:2]]
    namespace = {}
    exec("\n".join(sources[1:3]), namespace)
    assert (namespace["MODEL"], namespace["DEVICE"]) == ("my bert's", "auto")
    assert len(notebook.cells) == 3, "the notebook itself stays as it is"


def test_a_parameter_that_the_chapter_lacks_is_refused(notebook):
    with pytest.raises(LookupError, match=r"no parameter TEXTS.*MODEL, DEVICE"):
        parameters.inject(notebook, {"TEXTS": "a.txt"})
