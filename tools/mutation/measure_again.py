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

from book.publish import execution, recorded
from tests.book.studies import test_claims

BOOK = execution.ROOT / "book"
PAGES = [name for name, page in execution.pages(BOOK).items() if execution.is_notebook(page)]
PICTURES = ("<Figure", "<BookFigure")
GLUED = "application/papermill.record/text/plain"


def printed_and_shown(outputs: list[dict]) -> tuple[str, list[dict]]:
    """Return the printed text of a cell's outputs, and what was shown beside pictures."""
    data = [out["data"] for out in outputs if "data" in out]
    shown = [
        {key: value for key, value in each.items() if key in execution.TEXTUAL}
        for each in data
        if GLUED not in each and not str(each.get("text/plain")).startswith(PICTURES)
    ]
    return "".join(out["text"] for out in outputs if out.get("name") == "stdout"), json.loads(json.dumps(shown))


def run(shell: InteractiveShell, source: str) -> list[dict]:
    """Execute one cell and return its outputs; raise what it raises."""
    last: list[dict] = []
    shell.display_trap.hook = CapturingDisplayHook(shell, last)
    with capture_output() as captured:
        shell.run_cell(source).raise_error()
    shown = ({"data": dict(out.data), "metadata": dict(out.metadata)} for out in captured.outputs)
    return [{"name": "stdout", "text": captured.stdout}, *shown, *last]


def glued(outputs: list[dict]) -> dict[str, object]:
    """Return what a cell handed to its page, by name."""
    return {
        out["metadata"]["scrapbook"]["name"]: recorded.value(out["data"][GLUED])
        for out in outputs
        if GLUED in out.get("data", {})
    }


def settled(found: tuple, due: tuple) -> bool:
    """Say whether printed and shown text agrees with the recorded, numbers as numbers."""
    found, due = json.dumps(found, sort_keys=True), json.dumps(due, sort_keys=True)
    return recorded.settle(found, due) == due


@pytest.mark.parametrize("name", test_claims.NAMES)
def test_the_claims_of_the_stored_measurement(name):
    measured = test_claims.measurement(name)
    cells = recorded.read(execution.RECORDED / f"{name.replace('_', '-')}.json")["cells"]
    verdicts = [
        data["application/vnd.analysis.verdict+json"]
        for cell in cells
        for data in printed_and_shown(cell["outputs"])[1]
        if "application/vnd.analysis.verdict+json" in data
    ]
    again = [
        {"id": claim_id, "outcome": (found := function(measured)).verdict, "evidence": found.evidence}
        for claim_id, function in test_claims.functions(name).items()
    ]
    assert settled(again, verdicts)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_is_recorded(page, monkeypatch):
    monkeypatch.chdir(BOOK)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for a reader, whom nothing checks
    path = BOOK / f"{page}.md"
    notebook = read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=str(path))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    record = recorded.read(execution.RECORDED / f"{page}.json")
    formats = recorded.formats(path.read_text(encoding="utf-8"))
    shell = InteractiveShell.instance()
    shell.reset()
    for cell, due in zip(cells, record["cells"], strict=True):
        outputs = run(shell, cell.source)
        if "nbval-ignore-output" not in cell.metadata.get("tags", []):
            assert settled(printed_and_shown(outputs), printed_and_shown(due["outputs"]))
            assert not recorded.differences(glued(outputs), record["numbers"], formats)
