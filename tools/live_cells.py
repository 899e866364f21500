"""Print which visible cells of the stories live in the page, and what the others need: ``python -m tools.live_cells``.

A cell lives where it is tagged ``live``; tests/book/pages/test_live.py holds each such cell to its record. Another cell
needs the package for the names that the page's Python lacks, or for what an earlier such cell made.
"""

import ast
import sys
from collections.abc import Iterator

from myst_nb.core.read import read_myst_markdown_notebook

from book._ext import live_shim
from tools import stories

OFFERED = {"torch": {*live_shim.TORCH, *dir(live_shim.Tensor)}, "analysis": {f.__name__ for f in live_shim.PACKAGE}}


def lacking(source: str) -> list[str]:
    """Name what a cell imports, or calls of torch, that the page's Python has not.

    >>> lacking("import torch\\nfrom analysis import attend, find\\ntorch.manual_seed(0)")
    ['analysis.find', 'torch.manual_seed']
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OFFERED:
            known = OFFERED.get(node.module, set())
            found |= {f"{node.module}.{alias.name}": None for alias in node.names if alias.name not in known}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OFFERED:
            name = f"{node.value.id}.{node.attr}"
            found |= {name: None} if node.attr not in OFFERED[node.value.id] else {}
    return sorted(found)


def rows() -> Iterator[tuple[str, int, str]]:
    """Yield page, number and fate of each visible cell."""
    for page in stories.pages():
        text = (stories.ROOT / f"{page}.md").read_text(encoding="utf-8")
        cells = read_myst_markdown_notebook(text, path=page).cells if "{code-cell}" in text else []
        made: dict[str, int] = {}  # names that only the package can make, and by which cell
        for number, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), 1):
            tags, tree = cell.metadata.get("tags", []), ast.parse(cell.source)
            names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            used = sorted({made[n.id] for n in names if isinstance(n.ctx, ast.Load) and n.id in made})
            if "live" not in tags:
                made |= {n.id: number for n in names if isinstance(n.ctx, ast.Store)}
            if "hide-input" not in tags:
                why = lacking(cell.source) or [f"what cell {other} made" for other in used] or ["not tried"]
                yield page, number, "lives" if "live" in tags else f"needs the package: {', '.join(why)}"


def main() -> int:
    """Print the table and the count."""
    table = list(rows())
    for page, number, fate in table:
        print(f"{page.removeprefix('book/'):<24}{number:>3}  {fate}")
    print(f"{sum(fate == 'lives' for *_, fate in table)} of {len(table)} cells live")
    return 0


if __name__ == "__main__":
    sys.exit(main())
