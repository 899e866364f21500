"""A page's text as it reads in a downloaded notebook: numbers and references in words, directives as paragraphs."""

import re

from sphinx.environment import BuildEnvironment

from book.publish import known, recorded

ROLE = re.compile(r"\{([a-z:]+)\}`([^`]+)`")
NAMED = re.compile(r"(.*?)\s*<([^<>]+)>$")
FENCE = re.compile(r"^(`{3,})(?:\{([\w:-]+)\})?\s*(.*)$")
LEFT_OUT = re.compile(r"\([\w-]+\)=$|%|:[\w-]+:|\+\+\+$")
CHOICE = re.compile(r"^- \([ x]\)")  # of a bet
KINDS = {"solution-start": "Solution", "solution-end": "", "admonition": "", "raw": "", "bet": "Your bet"}
NUMBERED = re.compile(r"^\$\$ \(([\w-]+)\)$", re.MULTILINE)
WITH_THE_PACKAGE = """\
*To run this notebook* you need the package `analysis` and nothing else of the book. {cell} \
The torch that you have stays."""
INSTALLS = "The next cell installs it where it is missing."
SAYS_HOW = "Where it is missing, the next cell says how to install it."
WITH_THE_BOOK = """\
*To run this notebook*, open it inside a checkout of the project{address}: its cells import the package `analysis` and \
the chapters' own code in `book`. There `make book` creates the environment `.venv` with everything that is needed; or \
run the next cell once."""
INSTALL_PACKAGE = """\
import importlib.util
if importlib.util.find_spec("analysis") is None:
    {otherwise}"""
INSTALL_BOOK = "%pip install -q -r requirements.txt -e ."
OF_THE_BOOK = re.compile(r"^\s*(?:from|import) book\b", re.MULTILINE)


def how_to_run(code: str, address: str) -> tuple[str, str]:
    """Return what a notebook's reader is told and the cell that installs what the notebook's code needs.

    ``address`` is the repository's, or empty where the book has none yet.

    >>> how_to_run("import torch", "https://example.org/a.git")[1].splitlines()[-1].strip()
    '%pip install -q "attention-taken-apart[models,figures] @ git+https://example.org/a.git"'
    >>> SAYS_HOW in how_to_run("import torch", "")[0]
    True
    >>> how_to_run("from book.publish import stamp", "")[1]
    '%pip install -q -r requirements.txt -e .'
    """
    if OF_THE_BOOK.search(code):
        return WITH_THE_BOOK.format(address=f" ({address})" if address else ""), INSTALL_BOOK
    wanted = f'%pip install -q "attention-taken-apart[models,figures] @ git+{address}"'
    missing = """raise ImportError('first, in a checkout of the project: pip install ".[models,figures]"')"""
    told = WITH_THE_PACKAGE.format(cell=INSTALLS if address else SAYS_HOW)
    return told, INSTALL_PACKAGE.format(otherwise=wanted if address else missing)


def macros(config: dict) -> str:
    """Define the book's TeX macros, as MathJax has them, for a notebook's pages.

    >>> macros({"tex": {"macros": {"half": "1/2"}}}) == "$" + chr(92) + "newcommand{" + chr(92) + "half}{1/2}$"
    True
    """
    commands = [rf"\newcommand{{\{name}}}{{{tex}}}" for name, tex in config["tex"]["macros"].items()]
    return f"${''.join(commands)}$"


def numbers(notebook) -> dict[str, object]:
    """Return what a notebook's cells glued, by name."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    glued = {out.get("metadata", {}).get("scrapbook", {}).get("name"): out.get("data", {}) for out in outputs}
    texts = {name: next(iter(data.values())) for name, data in glued.items() if name and data}
    return {name: recorded.value("".join(text)) for name, text in texts.items()}


def readable(text: str, env: BuildEnvironment, glued: dict[str, object]) -> str:
    """Write a Markdown cell without roles and directives.

    >>> from types import SimpleNamespace
    >>> print(readable("See {glue:text}`share:.1f` nats.", SimpleNamespace(), {"share": 0.25}))
    See 0.2 nats.
    """
    text = "\n".join(_lines(text))
    text = NUMBERED.sub(lambda match: f"$$\n{_equation(env, match[1])}", text)
    return ROLE.sub(lambda match: _in_words(match[1], match[2], env, glued), text)


def _lines(text: str):
    fences = []  # of each open fence: its mark, and whether it is a directive
    for line in text.split("\n"):
        mark, in_code = FENCE.match(line), not all(directive for _, directive in fences)
        if mark and not mark[2] and not mark[3] and fences and mark[1] == fences[-1][0]:
            if not fences.pop()[1]:
                yield line
        elif mark and not in_code:
            fences.append((mark[1], bool(mark[2])))
            yield _heading(mark[2], mark[3]) if mark[2] else line
        elif in_code or not LEFT_OUT.match(line):
            yield line if in_code else CHOICE.sub("-", line)


def _heading(directive: str, title: str) -> str:
    kind = KINDS.get(directive, directive.rpartition(":")[2].capitalize())
    if kind in ("Solution", "Your bet"):
        title = ""  # its argument is a label
    if directive == "viewer":
        return "**On the page you can play with this picture.**\n"
    words = f"{kind} ({title})" if kind and title else kind or title
    return f"**{words}.**\n" if words else ""


def _in_words(role: str, target: str, env: BuildEnvironment, glued: dict[str, object]) -> str:
    if role == "glue:text":
        name, _, form = target.partition(":")
        found = glued.get(name, f"`{target}`")
        return found if isinstance(found, str) else format(found, form)  # nan, of another model, is read as a word
    if match := NAMED.match(target):
        return match[1]
    if role.startswith("cite"):
        return cited(env, target.split(","), in_text=role == "cite:t")
    return (REFERENCES[role](env, target) if role in REFERENCES else "") or f"`{target.removeprefix('~')}`"


def _equation(env: BuildEnvironment, label: str) -> str:
    equation = env.get_domain("math").equations.get(label)
    return f"({equation[1]})" if equation else ""


def _statement(env: BuildEnvironment, label: str) -> str:
    entry = getattr(env, "proof_list", {}).get(label)
    return f"{entry['realtype'].capitalize()} {_number(env, entry['docname'], label)}" if entry else ""


def _figure(env: BuildEnvironment, label: str) -> str:
    place = env.get_domain("std").labels.get(label)
    return f"Fig. {_number(env, *place[:2])}" if place else ""


def _section(env: BuildEnvironment, label: str) -> str:
    place = env.get_domain("std").labels.get(label)
    return f"“{place[2]}”" if place else ""


def _page(env: BuildEnvironment, name: str) -> str:
    return next((f"“{env.titles[page].astext()}”" for page in (f"book/{name}", name) if page in env.titles), "")


def _known(env: BuildEnvironment, labels: str) -> str:
    entries = {entry.label: entry for entry in known.entries()}
    lines = [
        f"*{known.DEGREES[entry.degree]}.* {readable(entry.text, env, {})}"
        for entry in map(entries.get, known.split(labels))
        if entry
    ]
    return " ".join(dict.fromkeys(lines))


REFERENCES = {
    "eq": _equation,
    "prf:ref": _statement,
    "numref": _figure,
    "ref": _section,
    "doc": _page,
    "term": lambda _, target: target,
    "evidence": lambda _, target: target,
    "known": _known,
}


def _number(env: BuildEnvironment, docname: str, label: str) -> str:
    kinds = env.toc_fignumbers.get(docname, {}).values()
    return ".".join(map(str, next((ids[label] for ids in kinds if label in ids), ())))


def cited(env: BuildEnvironment, keys: list[str], *, in_text: bool) -> str:
    """Write citations by author and year: ``Dong et al. (2021)`` in a sentence, ``(Dong et al. 2021)`` beside it."""
    entries = {citation.key: citation.entry for citation in env.get_domain("cite").citations}
    pairs = [
        (_authors(entries[key]), entries[key].fields.get("year", "no date"))
        for key in map(str.strip, keys)
        if key in entries
    ]
    if in_text:
        return "; ".join(f"{who} ({year})" for who, year in pairs)
    return f"({'; '.join(f'{who} {year}' for who, year in pairs)})"


def _authors(entry) -> str:
    people = entry.persons.get("author", ())
    names = [" ".join(person.last_names) for person in people] or [entry.fields.get("title", "")]
    return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
