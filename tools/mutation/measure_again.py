"""Execute each page's cells and hold their outputs to the recorded ones, all in this process, so that it can mutate.

``run.py`` runs this in place of the comparison of the executed pages, whose kernels are processes of their own. What
cells print and show is compared as there; how figures look is not.
"""

import json

import jaxtyping
import pytest
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from myst_nb.core.read import read_myst_markdown_notebook

from book.publish import execution
from tests.book.studies import test_claims

BOOK = execution.ROOT / "book"
PAGES = [page.stem for page in sorted(BOOK.glob("*.md")) if execution.is_notebook(page)]
PICTURES = ("<Figure", "<BookFigure")


def printed_and_shown(outputs: list[dict]) -> tuple[str, list[dict]]:
    """Return the printed text of a cell's outputs, and what was shown beside pictures."""
    data = [out["data"] for out in outputs if "data" in out]
    shown = [
        {key: value for key, value in each.items() if key in execution.TEXTUAL}
        for each in data
        if not str(each.get("text/plain")).startswith(PICTURES)
    ]
    return "".join(out["text"] for out in outputs if out.get("name") == "stdout"), json.loads(json.dumps(shown))


def run(shell: InteractiveShell, source: str) -> list[dict]:
    """Execute one cell and return its outputs; raise what it raises."""
    last: list[dict] = []
    shell.display_trap.hook = CapturingDisplayHook(shell, last)
    with capture_output() as captured:
        shell.run_cell(source).raise_error()
    return [{"name": "stdout", "text": captured.stdout}, *({"data": dict(out.data)} for out in captured.outputs), *last]


@pytest.mark.parametrize("name", test_claims.NAMES)
def test_the_claims_of_the_stored_measurement(name):
    measured = test_claims.measurement(name)
    recorded = execution.read_cells(execution.RECORDED / f"{name.replace('_', '-')}.json")
    verdicts = [
        data["application/vnd.analysis.verdict+json"]
        for cell in recorded
        for data in printed_and_shown(cell["outputs"])[1]
        if "application/vnd.analysis.verdict+json" in data
    ]
    assert [
        {"id": claim_id, "outcome": (found := function(measured)).verdict, "evidence": found.evidence}
        for claim_id, function in test_claims.functions(name).items()
    ] == verdicts


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_is_recorded(page, monkeypatch):
    monkeypatch.chdir(BOOK)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for a reader, whom nothing checks
    path = BOOK / f"{page}.md"
    notebook = read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=str(path))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    recorded = execution.read_cells(execution.RECORDED / f"{page}.json")
    shell = InteractiveShell.instance()
    shell.reset()
    for cell, due in zip(cells, recorded, strict=True):
        outputs = run(shell, cell.source)
        if "nbval-ignore-output" not in cell.metadata.get("tags", []):
            assert printed_and_shown(outputs) == printed_and_shown(due["outputs"])
