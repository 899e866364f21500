"""The sources of the book: figures, numbers, labels, cells, and the drawing functions."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook

from analysis.models.checkpoints import KNOWN
from book._ext.exercises import exercises, name_solutions
from book.publish import execution
from tests.book.pages.book_pages import PAGES
from tools import stories

ROOT = Path(__file__).parents[3]
LONGEST_CELL = 15
LONGEST_LINE = 84
LONGEST_FUNCTION = 8
LONGEST_BRIEF = 110  # words
PARAMETERS = {"MODEL", "TEXTS", "DEVICE"}
OUT_OF_SIGHT = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
STYLED = {
    "figsize",
    "dpi",
    "fontsize",
    "fontname",
    "fontfamily",
    "labelsize",
    "color",
    "c",
    "colors",
    "facecolor",
    "edgecolor",
    "ecolor",
    "markerfacecolor",
    "markeredgecolor",
    "cmap",
    "palette",
}
FREE = {"none", "auto", "inherit"}
HEX = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}\b")

FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})(\{?)([\w:.+-]*)")
VERBATIM = {"math", "code", "code-block", "code-cell", "bibliography", "literalinclude", "mermaid"}
NOT_PROSE = re.compile(
    r"\$\$.*?\$\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}|(?<![\\$])\$[^$]+\$"  # math
    r"|\{[\w:.+-]+\}`[^`]*`|(?<!`)(`{1,2})(?!`)[^`]+\2"  # roles, inline code
    r"|\]\([^)]*\)|<https?://[^>]*>|https?://\S+"
    r"|^\([\w-]+\)=\s*$|^:\w+:[^\n]*$|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
NUMBER_LIST = r"\(?\d+(?:\.\d+)+\)?(?:(?:,| and| to| or|–|-)\s*\(?\d+(?:\.\d+)+\)?)*"
REFERENCE = re.compile(
    rf"(?:[Ee]quations?|[Ee]qs?\.|[Ss]ections?|[Cc]hapters?|§+|[Pp]rop(?:ositions?|s?\.)|[Tt]h(?:eorems?|ms?\.?)"
    rf"|[Ff]ig(?:ures?|s?\.)|[Tt]ables?|[Ll]emmas?|[Cc]orollar(?:y|ies)|[Dd]efinitions?|arXiv:?|Python|CUDA|[Vv]ersions?"
    rf"|Apache|CC BY(?:-SA)?)\s+{NUMBER_LIST}|\(\d+\.\d+\)|^#+ .*$",
    re.MULTILINE,
)
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\w*\.\d)")
ALLOW = re.compile(r"^%\s*allow-number:\s*\S")


def chapters() -> list[Path]:
    return list(execution.pages().values())


def name_of(path: Path) -> str:
    return execution.page_name(path)


def notebook(path: Path):
    with path.open(encoding="utf-8") as file:
        if not is_myst_markdown_notebook(file):
            return None
    return read_myst_markdown_notebook(path.read_text(encoding="utf-8"), path=str(path))


def code_cells(path: Path) -> list:
    found = notebook(path)
    return [cell for cell in found.cells if cell.cell_type == "code"] if found else []


def without_verbatim(markdown: str) -> str:
    """Drop fenced code and math; keep the prose inside other directives."""
    kept, opened = [], []
    for line in markdown.splitlines():
        fence = FENCE.match(line)
        if fence and opened and not fence[3] and fence[1].startswith(opened[-1][0]):
            opened.pop()
        elif fence:
            opened.append((fence[1], not fence[2] or fence[3] in VERBATIM))
        elif not any(verbatim for _, verbatim in opened):
            kept.append(line)
    return "\n".join(kept)


def typed_decimals(markdown: str) -> list[str]:
    """Return the decimal numbers in prose that are neither glued, math, code, nor a reference to a numbered thing."""
    paragraphs = re.split(r"\n\s*\n", NOT_PROSE.sub(" ", without_verbatim(markdown)))
    checked = "\n\n".join(p for p in paragraphs if not any(ALLOW.match(line) for line in p.splitlines()))
    checked = re.sub(r"^%.*$", "", checked, flags=re.MULTILINE)
    return DECIMAL.findall(REFERENCE.sub(" ", checked))


def literal_styles(code: str) -> list[str]:
    """Return the sizes, colours and fonts that code spells out instead of taking them from the style."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword) and node.arg in STYLED:
            literals = [n for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
            named = isinstance(node.value, ast.Constant | ast.Tuple | ast.List)
            if named and any(
                isinstance(n.value, str | int | float) and not isinstance(n.value, bool) and n.value not in FREE
                for n in literals
            ):
                found.append(f"line {node.value.lineno}: {node.arg}={ast.unparse(node.value)}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and HEX.fullmatch(node.value):
            found.append(f"line {node.lineno}: {node.value}")
        elif isinstance(node, ast.Attribute) and node.attr in {"rcParams", "set_size_inches", "set_fontsize"}:
            found.append(f"line {node.lineno}: {node.attr}")
    return found


@pytest.mark.parametrize("path", chapters(), ids=name_of)
class TestChapter:
    """Every page of the book."""

    def test_figures_have_caption_name_and_alt_text(self, path):
        for n, cell in enumerate(code_cells(path)):
            options = cell.metadata.get("mystnb", {})
            if "figure" in options or "image" in options:
                figure = options.get("figure", {})
                lacks = [
                    key
                    for key, value in {
                        "caption": figure.get("caption"),
                        "name": figure.get("name"),
                        "alt": options.get("image", {}).get("alt"),
                    }.items()
                    if not value
                ]
                assert not lacks, f"{path.name}, cell {n}: the figure lacks {', '.join(lacks)}"

    def test_visible_cells_are_short(self, path):
        for n, cell in enumerate(code_cells(path)):
            if not OUT_OF_SIGHT & set(cell.metadata.get("tags", [])):
                lines = len(cell.source.strip().splitlines())
                assert lines <= LONGEST_CELL, f"{path.name}, cell {n} has {lines} lines, at most {LONGEST_CELL}"

    def test_cells_leave_style_to_the_style(self, path):
        found = [f"cell {n}, {text}" for n, cell in enumerate(code_cells(path)) for text in literal_styles(cell.source)]
        assert not found, f"{path.name}: {'; '.join(found)}"

    def test_decimals_are_glued(self, path):
        found = notebook(path)
        prose = [c.source for c in found.cells if c.cell_type == "markdown"] if found else [path.read_text("utf-8")]
        typed = [number for text in prose for number in typed_decimals(text)]
        assert not typed, f"{path.name}: typed numbers {', '.join(typed)}; glue them, or say '% allow-number: why'"

    def test_no_machine_path(self, path):
        assert not re.search(r"(?<![\w.])/(?:work|home|root|tmp|Users)/", path.read_text(encoding="utf-8"))


def brief(text: str) -> tuple[list[str], int]:
    """Return how the points of a page's *In brief* begin, and how many words it has; a role or formula is one word."""
    found = re.search(r"\*In brief\.\*\n\n((?:\* .*\n)+)\n", text)
    if not found:
        return [], 0
    plain = re.sub(r"\{[\w:]+\}`(?:([^`<]*) <)?[^`]*`", lambda role: role[1] or "one", found[1])
    words = re.sub(r"\$[^$]*\$", "one", plain).split()
    return re.findall(r"^\* \*\*(.*?)\.\*\*", found[1], re.MULTILINE), len(words) - words.count("*")


@pytest.mark.parametrize(
    "path", [path for path in chapters() if "*In brief.*\n\n" in path.read_text(encoding="utf-8")], ids=name_of
)
def test_in_brief_is_a_claim_a_finding_and_how_sure_we_are(path):
    """A claim without an owner is that of the document, which is cited with it."""
    text = path.read_text(encoding="utf-8")
    (first, *others), words = brief(text)
    cites = "{cite" in re.search(r"^\* \*\*.*$", text, re.MULTILINE)[0]
    assert first == "Claim" if cites else first in ("Our claim", "Subject")
    assert others == ["Finding", "How sure"]
    assert words <= LONGEST_BRIEF, f"{path.name}: {words} words, at most {LONGEST_BRIEF}"


@pytest.mark.parametrize(
    ("text", "points", "words"),
    [
        ("*In brief.* One paragraph.\n\n", [], 0),
        (
            "*In brief.*\n\n* **Claim.** In {glue:text}`a-b:.2f` of $n + 1$.\n"
            "* **Finding.** It {doc}`holds so <x>`.\n\n",
            ["Claim", "Finding"],
            9,
        ),
    ],
)
def test_the_points_of_a_brief_are_read(text, points, words):
    assert brief(text) == (points, words)


def hidden(cell) -> bool:
    """Say whether a reader does not see a cell's code at once."""
    return bool(OUT_OF_SIGHT & set(cell.metadata.get("tags", [])))


def glue_code(code: str) -> list[str]:
    """Return the places where code hands numbers to the text one by one."""
    tree = ast.walk(ast.parse(code))
    return [
        f"line {node.lineno}"
        for node in tree
        if (isinstance(node, ast.alias) and node.name == "glue")
        or (isinstance(node, ast.FunctionDef) and node.name == "put")
        or (isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("glue", "put"))
    ]


def functions_too_long(code: str) -> list[str]:
    """Return the names of functions of more than eight lines."""
    return [
        node.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]


def merely_calls(code: str) -> bool:
    """Say whether code computes nothing itself: it only calls a study, a figure or a table."""

    def is_call(node) -> bool:
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        return called.split(".")[0] in ("figures", "publish", "study", "tables")

    body = [node for node in ast.parse(code).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return bool(body) and all(map(is_call, body))


def no_plain_parameters(code: str) -> list[str]:
    """Return the statements of a parameters cell that are more than a constant given to a known parameter."""
    return [
        ast.unparse(node)
        for node in ast.parse(code).body
        if not (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and {ast.unparse(target) for target in node.targets} <= PARAMETERS
        )
    ]


@pytest.mark.parametrize("path", [path for path in chapters() if code_cells(path)], ids=name_of)
class TestPageWithAStudy:
    """A page shows the method; numbers, verdicts and everything else are its study's."""

    def test_no_number_is_glued_by_hand(self, path):
        found = {n: places for n, cell in enumerate(code_cells(path)) if (places := glue_code(cell.source))}
        assert not found, f"{path.name}: glue or put in cells {found}; hand them over with publish.glue_numbers"

    def test_no_verdict_is_decided_in_the_page(self, path):
        assert "verdict(" not in path.read_text(encoding="utf-8")

    def test_no_lambda(self, path):
        found = [
            n
            for n, cell in enumerate(code_cells(path))
            if any(isinstance(node, ast.Lambda) for node in ast.walk(ast.parse(cell.source)))
        ]
        assert not found, f"{path.name}: a lambda in cells {found}"

    def test_functions_are_short(self, path):
        found = [name for cell in code_cells(path) for name in functions_too_long(cell.source)]
        assert not found, f"{path.name}: more than {LONGEST_FUNCTION} lines in {', '.join(found)}"

    def test_no_visible_line_wraps(self, path):
        found = [
            line
            for cell in code_cells(path)
            if not hidden(cell)
            for line in cell.source.splitlines()
            if len(line) > LONGEST_LINE
        ]
        assert not found, f"{path.name}: more than {LONGEST_LINE} characters in {found}"

    def test_what_only_calls_a_study_is_not_visible(self, path):
        found = [c.source.splitlines()[0] for c in code_cells(path) if not hidden(c) and merely_calls(c.source)]
        assert not found, f"{path.name}: give the tag remove-input to {found}"

    def test_parameters_are_plain(self, path):
        cells = [cell for cell in code_cells(path) if "parameters" in cell.metadata.get("tags", [])]
        assert len(cells) <= 1
        found = [statement for cell in cells for statement in no_plain_parameters(cell.source)]
        assert not found, f"{path.name}: no plain assignment of {', '.join(sorted(PARAMETERS))}: {found}"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("from myst_nb import glue", 1),
        ("glue('a', 1)", 1),
        ("import myst_nb as m; m.glue('a', 1)", 1),
        ("def put(x): pass", 1),
        ("put(a=1)", 1),
        ("publish.glue_numbers(m)", 0),
        ("x.put_along(1)", 0),
    ],
)
def test_glue_code_is_found(code, count):
    assert len(glue_code(code)) == count


@pytest.mark.parametrize(
    ("code", "merely"),
    [
        ("figures.maps(m.maps)", True),
        ("from book.studies import x\npublish.table(\n    study.tables.rows(m), caption='Rows.')", True),
        ("x = load('minilm')", False),
        ("figures.maps(m.maps)\nprint(m.a + 1)", False),
        ("import torch", False),
    ],
)
def test_cells_that_only_call_a_study_are_found(code, merely):
    assert merely_calls(code) == merely


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("MODEL = 'gpt2'  # any\nTEXTS = None\nDEVICE = 'auto'", 0),
        ("SEED = 1", 1),
        ("MODEL = choose('a')", 1),
        ("import os", 1),
        ("MODEL = TEXTS = None", 0),
        ("MODEL: str = 'a'", 1),
        ("DEVICE = 'a' + 'b'", 1),
    ],
)
def test_what_is_no_plain_parameter_is_found(code, count):
    assert len(no_plain_parameters(code)) == count


def test_long_functions_are_found():
    body = "\n    x = 1"
    assert functions_too_long(f"def f():{7 * body}\ndef g():{8 * body}") == ["g"]


def labels(text: str) -> list[str]:
    """Return the labels that a page defines."""
    patterns = (r"^\(([\w:.-]+)\)=\s*$", r"^:(?:label|name):\s*(\S+)", r"\$\$\s*\(([\w:.-]+)\)", r"^\s+name:\s*(\S+)$")
    body = text.split("\n---\n", 1)[-1]
    return [name for pattern in patterns for name in re.findall(pattern, body, re.MULTILINE)]


def test_labels_are_unique():
    count = Counter(name for path in chapters() for name in labels(path.read_text(encoding="utf-8")))
    assert not {name: n for name, n in count.items() if n > 1}


def unsolved(text: str) -> tuple[int, set[str]]:
    """Count a page's exercises; return the labels of those without a solution."""
    blocks = re.findall(r"^`{3,}\{exercise\}.*?^`{3,}$", text, re.MULTILINE | re.DOTALL)
    posed = [re.search(r":label: (\S+)", block)[1] for block in blocks]
    return len(posed), set(posed) - set(re.findall(r"^`{3,}\{solution(?:-start)?\} (\S+)", text, re.MULTILINE))


def test_every_chapter_has_exercises_and_every_exercise_its_solution():
    counts = {name_of(p): unsolved(p.read_text(encoding="utf-8")) for p in chapters() if code_cells(p)}
    assert not {name: open_ for name, (_, open_) in counts.items() if open_}
    assert not [
        name for name, (count, _) in counts.items() if not count and not name.startswith(("evidence/", "how-do-i"))
    ]


def test_an_exercise_without_solution_is_found():
    text = "```{exercise} A\n:label: a\n```\n\n```{exercise}\n:label: b\n```\n\n```{solution} a\nYes.\n```\n"
    assert unsolved(text) == (2, {"b"})


def models_taken() -> dict[str, bool]:
    """Return, for each chapter of the table in reproduce.md, whether it says that the chapter takes a model."""
    table = (ROOT / "book" / "reproduce.md").read_text(encoding="utf-8").split("| chapter | models it takes |")[1]
    rows = [row.split("|")[1:3] for row in table.split("\n\n")[0].splitlines()[2:]]
    taken = {
        name: not words.strip().startswith("no") for names, words in rows for name in re.findall(r"`([\w/-]+)`", names)
    }
    return taken | {name_of(path): True for path in chapters() if name_of(path).startswith("evidence/bert-")}


def test_the_table_of_models_has_every_chapter_and_says_which_take_one():
    takes = {
        name_of(path): bool(re.search(r"^MODEL = ", path.read_text(encoding="utf-8"), re.MULTILINE))
        for path in chapters()
        if code_cells(path) and f"book/{name_of(path)}" not in stories.pages()
    }
    assert models_taken() == takes


def test_the_table_of_symbols_has_every_model_that_the_package_knows_by_name():
    section = (ROOT / "book" / "symbols.md").read_text(encoding="utf-8").split("\n## Models\n")[1].split("\n## ")[0]
    assert set(KNOWN) == set(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE))


def test_a_stamp_names_the_models_that_the_cells_find():
    for path in (path for path in chapters() if f"book/{name_of(path)}" not in stories.pages()):
        sources = [cell["source"] for cell in code_cells(path)]
        if not any("from book import publish" in source for source in sources):
            continue  # a story, which says nothing of provenance
        stamps = "".join(source for source in sources if "publish.stamp(" in source)
        finds = {name for source in sources for name in re.findall(r'\bfind\("([\w-]+)"\)', source)}
        assert all(f'find("{name}")' in stamps for name in finds), name_of(path)


def test_every_exercise_has_a_title_of_its_own():
    titles = Counter(title for path in chapters() for _, title in exercises(path.read_text(encoding="utf-8")))
    posed = sum(unsolved(path.read_text(encoding="utf-8"))[0] for path in chapters())
    assert titles.total() == posed > 30
    assert not [title for title, n in titles.items() if n > 1 or not title]


def test_an_exercise_without_title_is_found():
    text = "```{exercise}\n:label: a\nWhy?\n```\n````{exercise} Two\n:label: b\n````\n"
    assert exercises(text) == [("a", ""), ("b", "Two")]


def figure_modules() -> list[Path]:
    """Return the modules that draw, but the style itself."""
    shared = [path for path in (ROOT / "analysis" / "plotting").glob("*.py") if path.stem != "style"]
    return sorted([*shared, *(ROOT / "book" / "studies").glob("*/figures.py")])


@pytest.mark.parametrize("path", figure_modules(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_figure_functions_leave_style_to_the_style(path):
    assert not literal_styles(path.read_text(encoding="utf-8"))


def test_references_can_be_read():
    from pybtex.database import parse_file

    assert len(parse_file(str(ROOT / "book" / "references.bib")).entries) > 10


def test_no_two_references_read_alike_where_they_are_cited():
    from pybtex.database import parse_file

    entries = parse_file(str(ROOT / "book" / "references.bib")).entries.values()
    named = Counter(
        (
            *(" ".join(person.last_names) for person in entry.persons["author"][:2]),
            len(entry.persons["author"]) > 2,
            entry.fields["year"],
        )
        for entry in entries
    )
    assert not [name for name, count in named.items() if count > 1]


def test_every_page_is_in_the_table_of_contents():
    assert sorted(PAGES) == sorted(f"book/{name}" for name in execution.pages())


def test_every_record_of_outputs_has_its_chapter():
    folder = execution.RECORDED
    recorded = {execution.page_name(path, folder) for path in folder.rglob("*.json")}
    assert recorded == {name for name, path in execution.pages().items() if notebook(path)}


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("The median is 0.53 nats.", ["0.53"]),
        ("The median is {glue:text}`m:.2f` nats, in $0.5$ and `0.7`.", []),
        ("As equation (3.4) and Proposition 3.2.2 say; see (4.5), Eqs. 3.1, 3.2 and 3.3, or Section 2.1.", []),
        ("% allow-number: the document's own figure\nThey print 1.72.", []),
        ("% allow-number: here only\nThey print 1.72.\n\nWe find 1.71.", ["1.71"]),
        ("```{prf:proposition} Name\n:label: p\nIt is 0.25.\n```", ["0.25"]),
        ("```python\nx = 0.25\n```\n\n$$\na = 0.25\n$$ (eq)\n", []),
        ("It costs 1.5 s. Then 3 more.", ["1.5"]),
        ("Python 3.11, arXiv 2406.19384, [page](https://x.org/v1.2/a).", []),
    ],
)
def test_typed_decimals_are_told_from_other_numbers(text, typed):
    assert typed_decimals(text) == typed


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("ax.plot(x, color='red')", 1),
        ("ax.plot(x, color=style.COLOURS['content'])", 0),
        ("plt.subplots(figsize=(3, 4))", 1),
        ("ax.set_title('a', fontsize=9)", 1),
        ("ax.fill(x, facecolor='none')", 0),
        ("ink = '#40004b'", 1),
        ("plt.rcParams['font.size'] = 3", 1),
        ("imshow(x, cmap='viridis')", 1),
    ],
)
def test_literal_styles_are_found(code, count):
    assert len(literal_styles(code)) == count


def test_the_anchor_of_a_solution_has_no_slash():
    page = new_document("page")
    page += [nodes.container(ids=["book/notation-solution-1"]), nodes.container(ids=["a/b"])]
    name_solutions(None, page)
    assert [node["ids"] for node in page] == [["book-notation-solution-1"], ["a/b"]]


LEVEL = re.compile(r" \((?:paper|code|paper and code), (?:easy|medium|hard)\)$")


def test_every_exercise_says_whether_paper_or_code_and_how_hard():
    titles = [
        title
        for page in execution.pages().values()
        for title in re.findall(r"^`{3,}\{exercise\} (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(titles) > 70
    assert [title for title in titles if not LEVEL.search(title)] == []
