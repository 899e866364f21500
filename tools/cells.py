"""Lint the cells of the book's pages with ruff, as the notebooks that they are. ``make lint`` runs this."""

import subprocess
import sys
import tempfile
from pathlib import Path

import jupytext

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Write the pages with cells as notebooks into a folder for ruff to read; return its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for page in sorted((ROOT / "book").rglob("*.md")):
            if "```{code-cell}" in page.read_text(encoding="utf-8"):
                notebook = Path(folder, page.relative_to(ROOT)).with_suffix(".ipynb")
                notebook.parent.mkdir(parents=True, exist_ok=True)
                jupytext.write(jupytext.read(page), notebook)
        ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--config", str(ROOT / "pyproject.toml")]
        return subprocess.run([*ruff, "."], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
