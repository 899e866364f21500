"""Examples in docstrings, as the pages of the package show them: under a heading of their own, and no line cut."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "analysis"
LONGEST = 84
OTHER = {"Parameters", "Attributes", "Returns", "Raises", "Yields"}


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield every docstring of the library with its place."""
    for path in sorted(LIBRARY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(LIBRARY)}: {getattr(node, 'name', 'module')}", text


def misplaced(text: str) -> bool:
    """Say whether an example stands in a section of another name, whose list it would become a part of."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", text, flags=re.MULTILINE)
    return any(">>>" in body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name in OTHER)


def long_lines(text: str) -> list[str]:
    """Return the lines of examples that are cut beside both sidebars."""
    return [line for line in text.splitlines() if re.match(r"\s*(>>>|\.\.\.) ", line) and len(line) > LONGEST]


def test_examples_stand_under_their_own_heading():
    assert not [place for place, text in docstrings() if misplaced(text)]
    assert misplaced("Do.\n\nReturns\n-------\nint\n\n>>> do()\n1")
    assert not misplaced("Do.\n\nReturns\n-------\nint\n\nExamples\n--------\n>>> do()\n1")


def test_no_line_of_an_example_is_cut():
    assert not [(place, lines) for place, text in docstrings() if (lines := long_lines(text))]
    assert long_lines(f">>> {'x' * LONGEST}")
    assert not long_lines("x" * 99)
