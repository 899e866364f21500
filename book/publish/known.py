"""What was known elsewhere: one entry for every finding and every proven statement of the book.

``book/known_elsewhere.yml`` lists the entries, and the pages hold the statements: a proposition, theorem, lemma or
corollary carries its ``:label:``, a finding the role ``{known}`` with the label of its entry, wherever it stands; one
role may carry the labels of several.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date
from functools import cache
from pathlib import Path

from book.publish import execution

ROOT = Path(__file__).parents[2]
FILE = ROOT / "book" / "known_elsewhere.yml"
DEGREES = {
    "known": "Known elsewhere",
    "partly": "Partly known elsewhere",
    "not found": "Not found elsewhere",
    "one code base": "About one code base that no other source examines",
}
SOUGHT = ("not found", "one code base")  # of these an entry says what was searched
PROVEN = ("theorem", "proposition", "lemma", "corollary")

CITED = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")
BLOCK = re.compile(rf"^(?:`{{3,}}|:{{3,}})\{{prf:({'|'.join(PROVEN)})\}}[ ]*(.*)\n((?::.*\n)*)", re.MULTILINE)
LABEL = re.compile(r"^:label:[ ]*(\S+)", re.MULTILINE)
FINDING = re.compile(r"\{known\}`([^`]+)`")
BOLD = re.compile(r"\*\*(.+?)\*\*")


class BadEntries(ValueError):
    """The file of entries is not what it should be; the message says which entry and why."""


@dataclass(frozen=True)
class Known:
    """What was known of one statement; ``searched`` says what was looked through where nothing was found."""

    label: str
    degree: str
    sentence: str
    date: date
    searched: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the bibliography that the sentence cites.

        >>> Known("a", "known", "Shown by {cite:t}`su2023bias` and in {cite}`dai2019, gu2025`.", date(2026, 1, 1)).keys
        ('su2023bias', 'dai2019', 'gu2025')
        """
        return citations(self.sentence)

    @property
    def text(self) -> str:
        """Return the sentence, and where nothing was found, when and where it was looked for.

        >>> Known("a", "not found", "It is new.", date(2026, 3, 4), "all pages.").text
        'It is new. Searched on 4 March 2026: all pages.'
        """
        search = f" Searched on {in_words(self.date)}: {self.searched}" if self.searched else ""
        return f"{self.sentence}{search}"


@dataclass(frozen=True)
class Statement:
    """A finding or a proven statement where it stands: its label, what it is, its title (MyST), its page."""

    label: str
    kind: str
    title: str
    page: str


def in_words(day: date) -> str:
    """Write a day in words.

    >>> in_words(date(2026, 1, 2))
    '2 January 2026'
    """
    return f"{day.day} {day:%B %Y}"


def citations(text: str) -> tuple[str, ...]:
    """Return the keys that a text of MyST cites, in order."""
    return tuple(key for keys in CITED.findall(text) for key in split(keys))


def split(names: str) -> list[str]:
    """Split names at commas.

    >>> split("a-b, c")
    ['a-b', 'c']
    """
    return [name.strip() for name in names.split(",")]


@cache
def entries(path: Path = FILE) -> tuple[Known, ...]:
    """Read the entries, in order; refuse one that is not whole, and a label that comes twice."""
    import yaml

    try:
        known = tuple(Known(**row) for row in yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        raise BadEntries(f"{path} cannot be read as a list of entries: {error}") from None
    for entry in known:
        if reason := fault(entry):
            raise BadEntries(f"{path}: the entry {entry.label!r} {reason}")
    labels = [entry.label for entry in known]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise BadEntries(f"{path} has more than one entry for {', '.join(twice)}")
    return known


def fault(entry: Known) -> str:
    """Say what is wrong with an entry, or nothing."""
    for field in fields(Known):
        if not isinstance(getattr(entry, field.name), field.type):
            return f"has a {field.name} that is no {field.type.__name__}"
    if entry.degree not in DEGREES:
        return f"has the degree {entry.degree!r}, which is none of {', '.join(DEGREES)}"
    if not entry.sentence:
        return "has no sentence"
    if entry.degree in SOUGHT:
        return "" if entry.searched else "must say what was searched"
    return "" if entry.keys else "must cite who knew it"


def pages() -> list[Path]:
    """Return the pages of the book, in its order."""
    return [path for name in execution.listed(ROOT) if (path := ROOT / f"{name}.md").exists()]


def statements(page: Path) -> Iterator[Statement]:
    """Find what a page states, in the order of the page; a proven statement without a label has an empty one."""
    text = page.read_text(encoding="utf-8")
    name = f"evidence/{page.stem}" if page.parent.name == "evidence" else page.stem
    places = {
        (match.start(), 0): (label[1] if (label := LABEL.search(match[3])) else "", match[1], match[2])
        for match in BLOCK.finditer(text)
    }
    number = f"{{number}}`{page.stem}/"  # what the page glues, other pages borrow
    places |= {
        (match.start(), place): (label, "finding", title(text, match.start()).replace("{glue:text}`", number))
        for match in FINDING.finditer(text)
        for place, label in enumerate(split(match[1]))
    }
    return (Statement(*places[place], name) for place in sorted(places))


def title(text: str, place: int) -> str:
    """Return what is printed bold in the paragraph or list item around a place of a page, else the heading above it.

    >>> text = "Before.\\n\\n1. **It falls.** Always.\\n2. **It rises**, {known}`x`"
    >>> title(text, text.index("{known}"))
    'It rises'
    >>> text = "* **It falls.** {known}`x`\\n* **It rises.** {known}`y`"
    >>> title(text, text.rindex("{known}"))
    'It rises'
    """
    begin = max(text.rfind("\n\n", 0, place), *(m.start() for m in re.finditer(r"\n(?:\d+\.|\*) ", text[:place])), -1)
    bold = BOLD.search(text, begin + 1, place)
    headings = re.findall(r"^#+ (.+)$", text[:place], re.MULTILINE)
    return bold[1].rstrip(".") if bold else headings[-1] if headings else ""
