"""What the book asks its readers: exercises and bets, and the lists of all of them, read from the pages.

A ``bet <name>`` is a question to guess before one reads on, two to four choices ``- ( ) ...``, one of them
``- (x) ...``, a line ``+++``, and what comes out. With ``bets.js`` the choices are buttons and the browser keeps what
was chosen; without it they are a list and a fold. An exercise is named by its number and by the title that its
directive has; the build refuses one without a title or a label, since ``exercise-list`` could not name it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes

from book._ext.shared import Directive, fold, give_scripts
from book.publish import execution

EXERCISE = re.compile(r"^`{3,}\{exercise\}[ \t]*(?P<title>.*)\n(?::label: (?P<label>\S+))?", re.MULTILINE)
CHOICE = re.compile(r"- \(([ x])\) (.+)")
BET = re.compile(r"^(`{3,})\{bet\}[ \t]*(\S+)\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
MOST = 4


def exercises(text: str) -> list[tuple[str, str]]:
    """Return label and title of each exercise of a page.

    >>> exercises("```{exercise} Two rows\\n:label: ex-rows\\nAdd them.\\n```")
    [('ex-rows', 'Two rows')]
    """
    return [(match["label"] or "", match["title"].strip()) for match in EXERCISE.finditer(text)]


class OfAllPages(Directive):
    """A list that is written as Markdown, whose references find numbers and addresses."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield the pages in the order of the contents with their texts, of which the list is made."""
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "_toc.yml"))
        for page in execution.listed(root):
            path = root / f"{page}.md"
            self.env.note_dependency(str(path))
            yield page, path.read_text(encoding="utf-8")


class ExerciseList(OfAllPages):
    """``exercise-list``: for each page its link, and below it number and title of its exercises, each a link."""

    def run(self):
        """Write the list."""
        lines = []
        for page, text in self.texts():
            labelled = exercises(text)
            if not labelled or page not in self.env.found_docs:
                continue
            if nameless := [label or title for label, title in labelled if not (label and title)]:
                raise self.error(f"{page}: an exercise has no title or no label: {nameless[0] or 'neither'}")
            lines += [f"{{doc}}`/{page}`", *(f": {{numref}}`{label}`. {title}" for label, title in labelled), ""]
        return [self.parse(lines, "exercise-list")]


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


class Bet(Directive):
    """The question, the choices, and a fold with what comes out; other pages may refer to it as ``bet-<name>``."""

    required_arguments = 1

    def run(self):
        """Build it."""
        try:
            start, words, right, end = choices(list(self.content))
        except ValueError as error:
            raise self.error(f"the bet {self.arguments[0]} {error}") from error
        bet = self.parse(self.content[:start], "bet")
        bet["names"].append(f"bet-{self.arguments[0]}")
        self.state.document.note_explicit_target(bet, bet)
        listed = nodes.enumerated_list(enumtype="upperalpha", prefix="", suffix=".")
        for place, choice in enumerate(words):
            paragraph = nodes.paragraph("", "", *self.inline(choice))
            listed += nodes.list_item("", paragraph, classes=["right"] if place == right else [])
        bet += [listed, *fold("bet-outcome", "What comes out", self.parse(self.content[end + 1 :]).children)]
        return [bet]


class Bets(OfAllPages):
    """``bets``: a row for each bet of the book, the question, and the page on which it stands as a link to it."""

    def run(self):
        """Write the list."""
        rows = []
        for page, text in self.texts():
            title = execution.title(page.removeprefix("book/"))
            for _, name, body in BET.findall(text):
                asked = " ".join(body.split("\n- (")[0].split())
                rows.append(f"* {asked} {{ref}}`{title} <bet-{name}>`")
        return [self.parse(rows, "bets")]


def name_solutions(app, doctree):
    """Take the slash of the page from the anchors of solutions: a script that looks a link up by it would stop."""
    for node in doctree.findall(lambda node: isinstance(node, nodes.Element) and "-solution-" in str(node.get("ids"))):
        node["ids"] = [name.replace("/", "-") for name in node["ids"]]


def setup(app):
    """Register the directives and the script."""
    app.add_directive("exercise-list", ExerciseList)
    app.add_directive("bet", Bet)
    app.add_directive("bets", Bets)
    app.connect("doctree-read", name_solutions)
    give_scripts(app, '<div class="bet', "bets.js")  # a bet, or the list of all
