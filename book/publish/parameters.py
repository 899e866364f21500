"""The parameters of a chapter: read from its cell tagged ``parameters``, and set by papermill for one execution."""

import copy

import nbformat


def _cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [
        cell for cell in notebook.cells if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", [])
    ]


def names(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the names that a chapter's parameters cell assigns, such as ``MODEL`` and ``DEVICE``."""
    from papermill.translators import PythonTranslator

    return [parameter.name for cell in _cells(notebook) for parameter in PythonTranslator.inspect(cell)]


def inject(notebook: nbformat.NotebookNode, values: dict[str, str]) -> nbformat.NotebookNode:
    """Return a copy of a notebook in which papermill sets some of its parameters, in a cell of their own.

    Raises
    ------
    LookupError
        If the chapter has no parameter of that name, so that setting it would have no effect.
    """
    from papermill.parameterize import parameterize_notebook

    known = names(notebook)
    if unknown := sorted(values.keys() - set(known)):
        raise LookupError(
            f"the chapter has no parameter {', '.join(unknown)}, so setting it would have no effect; it "
            f"has {', '.join(known) or 'none'}"
        )
    return parameterize_notebook(_as_loaded(notebook), dict(values), kernel_name="python3", language="python")


def _as_loaded(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy with the metadata that papermill expects of a notebook it has read itself."""
    loaded = copy.deepcopy(notebook)
    loaded.metadata.setdefault("papermill", nbformat.NotebookNode())
    for cell in loaded.cells:
        cell.metadata.setdefault("tags", [])
    return loaded
