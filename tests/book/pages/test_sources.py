"""The sources of the book: figures, numbers, labels, cells, and the drawing functions."""

import ast
import re
import symtable
from collections import Counter
from pathlib import Path

import pytest
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook

from analysis.models.checkpoints import KNOWN
from book._ext.questions import exercises
from book.publish import execution, known, ledger
from tests.book.pages import stories
from tests.book.pages.book_pages import PAGES

ROOT = Path(__file__).parents[3]
LONGEST_CELL = 15
LONGEST_LINE = 84
LONGEST_BRIEF = 110  # words
PARAMETERS = {"MODEL", "TEXTS", "DEVICE"}
OUT_OF_SIGHT = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
STYLED = {"figsize", "dpi", "fontsize", "fontname", "fontfamily", "labelsize", "cmap", "palette"}
STYLED |= {"color", "c", "colors", "facecolor", "edgecolor", "ecolor", "markerfacecolor", "markeredgecolor"}
FREE = {"none", "auto", "inherit"}
HEX = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}\b")

FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})(\{?)([\w:.+-]*)")
VERBATIM = {"math", "code", "code-block", "code-cell", "bibliography", "literalinclude", "mermaid", "check"}
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

    def test_visible_cells_of_a_story_are_short(self, path):
        for n, cell in enumerate(code_cells(path) if path.parent.name != "evidence" else []):
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


def hidden(cell) -> bool:
    """Say whether a reader does not see a cell's code at once."""
    return bool(OUT_OF_SIGHT & set(cell.metadata.get("tags", [])))


def merely_calls(code: str) -> bool:
    """Say whether code computes nothing itself: it only hands over what is there."""

    def is_call(node) -> bool:
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        return called.split(".")[0] == "publish"

    body = [node for node in ast.parse(code).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return bool(body) and all(map(is_call, body))


def assigned(code: str) -> set[str]:
    """Return the names that a cell binds for the page."""
    symbols = symtable.symtable(code, "cell", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def conditions(code: str) -> set[str]:
    """Return the parameters of the conditions in code: what a page calls ``when``."""
    keywords = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.keyword) and node.arg == "when"]
    return {arg.arg for node in keywords if isinstance(node.value, ast.Lambda) for arg in node.value.args.args}


@pytest.mark.parametrize("path", [path for path in chapters() if path.parent.name == "evidence"], ids=name_of)
def test_a_variable_of_a_condition_is_assigned_in_one_cell_only(path):
    """A name that is bound again below would turn a verdict without a word."""
    sources = [cell.source for cell in code_cells(path)]
    bound = Counter(name for source in sources for name in assigned(source))
    deciding = set().union(*map(conditions, sources))
    assert {name: bound[name] for name in deciding if bound[name] != 1} == {}


@pytest.mark.parametrize("path", [path for path in chapters() if path.parent.name == "evidence"], ids=name_of)
def test_a_page_judges_its_claims_and_holds_its_findings_to_numbers(path):
    source = "\n".join(cell.source for cell in code_cells(path))
    judged = re.findall(r"publish\.judge\(\s*\"([A-Z]-\d+)\"", source)
    assert sorted(set(judged)) == sorted(claim.id for claim in ledger.claims() if claim.chapter == name_of(path))
    held = re.findall(r"publish\.finding\(\s*\"([\w-]+)\"", source)
    summed_up = {statement.label for statement in known.statements(ROOT / "book" / "findings.md")}
    assert sorted(set(held) - summed_up) == sorted(
        statement.label for statement in known.statements(path) if statement.kind == "finding"
    )


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
    """What a reader sees of a page's code."""

    def test_no_visible_line_wraps(self, path):
        lines = [line for cell in code_cells(path) if not hidden(cell) for line in cell.source.splitlines()]
        found = [line for line in lines if len(line) > LONGEST_LINE]
        assert not found, f"{path.name}: more than {LONGEST_LINE} characters in {found}"

    def test_what_only_calls_a_study_is_not_visible(self, path):
        found = [c.source.splitlines()[0] for c in code_cells(path) if not hidden(c) and merely_calls(c.source)]
        assert not found, f"{path.name}: give the tag remove-input to {found}"

    def test_parameters_are_plain(self, path):
        cells = [cell for cell in code_cells(path) if "parameters" in cell.metadata.get("tags", [])]
        assert len(cells) <= 1
        found = [statement for cell in cells for statement in no_plain_parameters(cell.source)]
        assert not found, f"{path.name}: no plain assignment of {', '.join(sorted(PARAMETERS))}: {found}"


def labels(text: str) -> list[str]:
    """Return the labels that a page defines."""
    forms = r"^\(([\w:.-]+)\)=\s*$", r"^:(?:label|name):\s*(\S+)", r"\$\$\s*\(([\w:.-]+)\)", r"^\s+name:\s*([\w:.-]+)$"
    body = text.split("\n---\n", 1)[-1]
    return [name for form in forms for name in re.findall(form, body, re.MULTILINE)]


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
    counted = {name for name in counts if not name.startswith(("evidence/", "how-do-i"))}
    assert not [name for name in counted if not counts[name][0]]


def models_taken() -> dict[str, bool]:
    """Return, for each chapter of the table in reproduce.md, whether it says that the chapter takes a model."""
    table = (ROOT / "book" / "reproduce.md").read_text(encoding="utf-8").split("| chapter | models it takes |")[1]
    rows = [row.split("|")[1:3] for row in table.split("\n\n")[0].splitlines()[2:]]
    taken = {name: said.strip()[:2] != "no" for names, said in rows for name in re.findall(r"`([\w/-]+)`", names)}
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


def test_every_exercise_has_a_title_of_its_own():
    titles = Counter(title for path in chapters() for _, title in exercises(path.read_text(encoding="utf-8")))
    posed = sum(unsolved(path.read_text(encoding="utf-8"))[0] for path in chapters())
    assert titles.total() == posed > 30
    assert not [title for title, n in titles.items() if n > 1 or not title]


def figure_modules() -> list[Path]:
    """Return the modules that draw, but the style itself."""
    return sorted(path for path in (ROOT / "analysis" / "plotting").glob("*.py") if path.stem != "style")


@pytest.mark.parametrize("path", figure_modules(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_figure_functions_leave_style_to_the_style(path):
    assert not literal_styles(path.read_text(encoding="utf-8"))


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


LEVEL = re.compile(r" \((?:paper|code|paper and code), (?:easy|medium|hard)\)$")


def test_every_exercise_says_whether_paper_or_code_and_how_hard():
    titles = [
        title
        for page in execution.pages().values()
        for title in re.findall(r"^`{3,}\{exercise\} (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(titles) > 70
    assert [title for title in titles if not LEVEL.search(title)] == []
