"""The example of CONTRIBUTING is a claim, a number, a figure and a verdict that run as they stand."""

import re

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from myst_nb.core.read import read_myst_markdown_notebook

from book.publish import ledger, recorded

GUIDE = (ledger.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_example_runs_and_shows_what_it_says(monkeypatch, tmp_path):
    claim = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[1]
    section = re.search(r"````md\n(.*?)````", GUIDE, re.DOTALL)[1]
    ledger_with_claim = tmp_path / "claims.yml"
    ledger_with_claim.write_text(ledger.FILE.read_text(encoding="utf-8") + claim, encoding="utf-8")
    known = ledger.claims(ledger_with_claim)
    monkeypatch.setattr(ledger, "claims", lambda path=None: known)
    header = "---\nkernelspec: {display_name: Python 3, language: python, name: python3}\n---\n"
    cells = [c for c in read_myst_markdown_notebook(header + section, path="page.md").cells if c.cell_type == "code"]
    shell = InteractiveShell.instance()
    try:
        with capture_output() as captured:
            for cell in cells:
                shell.run_cell(cell.source).raise_error()
    finally:
        InteractiveShell.clear_instance()
    shown = [out.data.get("text/plain", "") for out in captured.outputs]
    assert any(text.startswith("K-99 reproduced: Random rows keep 89%") for text in shown)
    glued = {out.metadata["scrapbook"]["name"] for out in captured.outputs if "scrapbook" in (out.metadata or {})}
    assert glued == set(recorded.formats(section)) == {"even-share"}


def test_the_guide_is_short():
    assert len(GUIDE.encode()) < 6_500
