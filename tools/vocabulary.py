"""Find words that the book does not use, in its pages, README, CONTRIBUTING and docstrings. ``make lint`` runs this.

``vocabulary.toml`` beside this file gives for each word, a regular expression, what to write instead and why. Code,
formulas, roles and directives' options are left out; a name of somebody else's in quotation marks may stay.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "tools" / "vocabulary.toml"
PACKAGES = ("analysis", "book", "claims", "tools")
NO_PROSE = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]*\$|``[^`\n]*``|`[^`\n]*`|“[^”\n]*”|^(?::[\w-]+:|%)[^\n]*", re.DOTALL | re.MULTILINE
)
FENCE = re.compile(r"^(`{3,}|:{3,})(\{?[\w:-]*\}?)")
EXAMPLE = re.compile(r"^ *>>>.*(?:\n *\S.*)*", re.MULTILINE)  # and what it prints, up to an empty line


def prose(text: str) -> str:
    """Blank out what is no prose, and keep every line where it was.

    >>> prose("A head `listens` to $x$.")
    'A head           to    .'
    """
    lines, fences = [], []  # the fences that are open: their marks, and whether they hold code
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if mark and not mark[2] and fences and mark[1] == fences[-1][0]:
            fences.pop()
        elif mark:
            fences.append((mark[1], not mark[2].startswith("{") or mark[2] == "{code-cell}"))
        lines.append("" if mark or any(code for _, code in fences) else line)
    return NO_PROSE.sub(_blank, "\n".join(lines))


def docstrings(code: str) -> str:
    """Return the docstrings of Python code without their examples, every line where it was.

    >>> docstrings("def f():\\n    'Return a row.'\\n    return 'a row that hears'")
    '\\nReturn a row.\\n'
    """
    lines = [""] * (code.count("\n") + 1)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            text = node.body[0].value
            lines[text.lineno - 1 : text.end_lineno] = EXAMPLE.sub(_blank, text.value).split("\n")
    return "\n".join(lines)


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def unwanted(text: str, words: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield line number, word and remedy of each word that the book does not use.

    >>> list(unwanted("One row\\nhears another.", {"hears?": "attend"}))
    [(2, 'hears', 'attend')]
    """
    text = prose(text)
    for pattern, remedy in words.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, match[0], remedy


def sources() -> Iterator[tuple[Path, str]]:
    """Yield every file that is checked, with the text in it that is checked."""
    pages = [*sorted((ROOT / "book").glob("*.md")), *sorted((ROOT / "book" / "evidence").glob("*.md"))]
    for path in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("claims/*.md")]:
        yield path, path.read_text(encoding="utf-8")
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        yield path, docstrings(path.read_text(encoding="utf-8"))


def main() -> int:
    """Print each unwanted word with its place; the exit status says whether there was one.

    An entry with ``only`` is about the paths that begin so.
    """
    entries = tomllib.loads(WORDS.read_text(encoding="utf-8"))["word"]
    lines = []
    for path, text in sources():
        place = path.relative_to(ROOT).as_posix()
        words = {of["pattern"]: of["instead"] for of in entries if place.startswith(tuple(of.get("only", [""])))}
        lines += [f"{place}:{line}: {word!r}: {remedy}" for line, word, remedy in sorted(unwanted(text, words))]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
