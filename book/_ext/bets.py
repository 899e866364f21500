"""Sphinx directives ``bet <name>``, a question to guess before one reads on, and ``bets``, all of them with the score.

A bet is a question, two to four choices ``- ( ) ...``, one of them ``- (x) ...``, a line ``+++``, and what comes out.
With ``bets.js`` the choices are buttons and the browser keeps what was chosen; without it they are a list and a fold.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from book._ext.verdicts import fold
from book.publish import execution

CHOICE = re.compile(r"- \(([ x])\) (.+)")
BET = re.compile(r"^(`{3,})\{bet\}[ \t]*(\S+)\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
SCRIPT = "bets.js"
MOST = 4


def choices(lines: list[str]) -> tuple[int, list[str], int, int]:
    """Return where the choices of a bet begin, their words, which is right, and where they end.

    >>> choices(["Heads?", "- (x) Yes.", "- ( ) No.", "+++", "It was."])
    (1, ['Yes.', 'No.'], 0, 3)
    """
    if "+++" not in lines:
        raise ValueError("has no line +++ between its choices and what comes out")
    end = lines.index("+++")
    found = [(number, *match.groups()) for number, line in enumerate(lines[:end]) if (match := CHOICE.match(line))]
    if not 2 <= len(found) <= MOST:
        raise ValueError(f"needs 2 to {MOST} choices, each a line '- ( ) ...' or '- (x) ...', got {len(found)}")
    if [number for number, *_ in found] != list(range(end - len(found), end)):
        raise ValueError("needs its choices below one another, a line each, right above +++")
    right = [place for place, (_, mark, _) in enumerate(found) if mark == "x"]
    if len(right) != 1:
        raise ValueError(f"needs exactly one right choice, marked (x), got {len(right)}")
    start = found[0][0]
    for part, part_lines in (("question", lines[:start]), ("outcome", lines[end + 1 :])):
        if not any(line.strip() for line in part_lines):
            raise ValueError(f"has no {part}")
    return start, [words for *_, words in found], right[0], end


class Bet(SphinxDirective):
    """The question, the choices, and a fold with what comes out."""

    required_arguments, has_content = 1, True

    def run(self):
        """Build it; other pages may refer to it as ``bet-<name>``."""
        name = f"bet-{self.arguments[0]}"
        try:
            start, words, right, end = choices(list(self.content))
        except ValueError as error:
            raise self.error(f"the bet {self.arguments[0]} {error}") from error
        bet, outcome = nodes.container(classes=["bet"], names=[name]), nodes.container()
        self.state.document.note_explicit_target(bet, bet)
        self.state.nested_parse(self.content[:start], self.content_offset, bet)
        listed = nodes.enumerated_list(enumtype="upperalpha", prefix="", suffix=".")
        for place, choice in enumerate(words):
            parsed, messages = self.state.inline_text(choice, self.lineno)
            paragraph = nodes.paragraph("", "", *parsed, *messages)
            listed += nodes.list_item("", paragraph, classes=["right"] if place == right else [])
        self.state.nested_parse(self.content[end + 1 :], self.content_offset + end + 1, outcome)
        bet += [listed, *fold("bet-outcome", "What comes out", outcome.children)]
        return [bet]


def by_page(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return name and question of every bet, page by page in the order of the contents."""
    texts = {page: (root / f"{page}.md").read_text(encoding="utf-8") for page in execution.listed(root)}
    found = {page: BET.findall(text) for page, text in texts.items()}
    return {page: [(name, body.split("\n- (")[0]) for _, name, body in bets] for page, bets in found.items() if bets}


class Bets(SphinxDirective):
    """A row for each bet of the book: the question, and the page on which it stands as a link to it."""

    def run(self):
        """Write the list as Markdown, whose references find the addresses."""
        root, rows = Path(self.env.srcdir), []
        for page, bets in by_page(root).items():
            self.env.note_dependency(str(root / f"{page}.md"))
            title = execution.title(page.removeprefix("book/"))
            rows += [f"* {' '.join(asked.split())} {{ref}}`{title} <bet-{name}>`" for name, asked in bets]
        parsed = nodes.container(classes=["bets"])
        self.state.nested_parse(StringList(rows, str(root / self.env.docname)), self.content_offset, parsed)
        return [parsed]


def add_script(app, pagename, templatename, context, doctree):
    """Give the script to the pages that have bets or their list."""
    if doctree is not None and re.search(r'<div class="bets? docutils', context.get("body", "")):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app):
    """Register the directives and the script."""
    app.add_directive("bet", Bet)
    app.add_directive("bets", Bets)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
