"""What the search page reads beside Sphinx's index: every page's passages, with the section that each stands in.

``search-texts.js`` is made of the built pages when the HTML is done. It gives a result its line of text and the
address of its section also where the book is opened from a file, from which a browser lets no script read other pages.
"""

import json
import re
from itertools import groupby
from pathlib import Path

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag

NAME = "search-texts.js"
ARTICLE = re.compile(r'<article class="bd-article"[^>]*>(.*)</article>', re.DOTALL)
HEADING = re.compile(r"<h1>((?:(?!</h1>|<a class=\"headerlink).)*)", re.DOTALL)  # the last has the chapter's number
HEADINGS = {"h1", "h2", "h3", "h4"}
PASSAGES = HEADINGS | {"p", "li", "tr", "dt", "dd", "figcaption", "caption"}
ANCHORED = {"section", "div", "figure", "dt", "dl", "tr", "table"}
LEFT_OUT = {"nav", "button", "noscript", "form", "summary"}
UNREAD = re.compile(r"<(script|style|pre|svg)\b.*?</\1>", re.DOTALL)  # and cheaper not to parse
RAISED = {"sub": "_", "sup": "^"}  # as formulas write an index and an exponent
NOISE = {"headerlink", "downloads", "collapsed", "expanded", "stamp"}  # classes of what is no text of the page
PACKAGE = "book/api"  # of its pages, whose names Sphinx's index has, only the sentences
SENTENCE = 40  # characters of the shortest of them
FORMULA = re.compile(r"\\[(\[](.*?)\\[)\]]", re.DOTALL)
COMMAND = re.compile(
    r"\\(?:mathbf|mathrm|mathsf|mathcal|text|operatorname|bar|hat|tilde|big|Big|left|right)\b"
    r"|\\[,;:!]|[{}\\]"
)
SIGNS = (
    r"\ne ≠ \neq ≠ \le ≤ \ge ≥ \cdot · \times × \in ∈ \to → \approx ≈ \pm ± \infty ∞ \top ᵀ \circ ∘ \sigma σ \beta β"
    r" \gamma γ \kappa κ \theta θ \Delta Δ \delta δ \epsilon ε \varphi φ \rho ρ \lambda λ \mu μ"
)
SYMBOLS = dict(re.findall(r"(\\\w+) (\S)", SIGNS))
SYMBOLS |= {r"\log": "log ", r"\ln": "ln ", r"\mathbf 1": "1"}
SYMBOL = re.compile("|".join(rf"{re.escape(name)}(?![a-zA-Z])" for name in sorted(SYMBOLS, key=len, reverse=True)))
TWO_LINES = re.compile(r"\\(?:[dt]?frac|sum|prod|begin|under|over|binom|stackrel|int)")
SHORT = 24  # characters of a formula that a line of text keeps


def passages(article: str) -> list[tuple[str, str, str]]:
    """Return the passages of an article: ``(anchor, heading, text)``, each with the section, figure or row it is in."""
    found: list[tuple[str, str, str]] = []
    words: list[str] = []
    term = ""

    def said() -> str:
        text = readable("".join(words))
        words.clear()
        return text

    def flush(anchor: str, heading: str) -> None:
        nonlocal term
        if text := said():
            found.append((anchor, heading, f"{term}: {text}" if term else text))
            term = ""

    def read(tag: Tag, anchor: str, heading: str, in_row: bool) -> None:
        nonlocal term
        for part in tag.children:
            if not isinstance(part, Tag):
                words.append(str(part) if type(part) is NavigableString else "")
                continue
            if part.name in LEFT_OUT or NOISE & {*part.get_attribute_list("class")}:
                continue
            ends = part.name in PASSAGES and (part.name == "tr" or not in_row)
            if ends:
                flush(anchor, heading)
            words.append(RAISED.get(part.name, ""))
            named = part.name in ANCHORED and part.get("id")
            here = str(named) if named else anchor
            read(part, here, heading, in_row or part.name == "tr")
            if part.name == "dt":  # what a term names holds for its definition
                anchor = here
            if ends and part.name == "dt":  # several terms of one definition together
                term = ", ".join(filter(None, (term, said())))
            elif ends and part.name in HEADINGS:
                heading = said()
            elif ends:
                flush(here, heading)
            elif part.name in {"td", "th"}:
                words.append(" ")

    read(BeautifulSoup(UNREAD.sub("", article), "html.parser"), "", "", False)
    flush("", "")
    return found


def readable(text: str) -> str:
    r"""Write a passage in one line, short formulas without their commands and of long ones a mark.

    >>> readable(r"The bias \(b_Q\) adds \(\frac{1}{\sqrt{c}}\,b_Q\) to \(x_j^\top\).")
    'The bias b_Q adds … to x_jᵀ.'
    >>> readable(r"Where \(b_Q\ne0\) the term \(W_K^{\top}x_k^{\top}\) counts.")
    'Where b_Q≠0 the term W_Kᵀx_kᵀ counts.'
    """

    def formula(match: re.Match) -> str:
        written = match[1].replace(r"^{\top}", "ᵀ").replace(r"^\top", "ᵀ").replace(r"\T", "ᵀ").replace(r"\sqrt", "√")
        written = SYMBOL.sub(lambda symbol: SYMBOLS[symbol[0]], written)
        plain = COMMAND.sub("", written).strip()
        return plain if len(plain) <= SHORT and not TWO_LINES.search(match[1]) else "…"

    return " ".join(FORMULA.sub(formula, text).split())


def page(text: str, name: str) -> list:
    """Return title and sections of a built page: ``[title, [[anchor, heading, [passage, ...]], ...]]``."""
    article = ARTICLE.search(text)
    found = passages(article[1]) if article else []
    if name.startswith(PACKAGE):
        found = [passage for passage in found if len(passage[2]) >= SENTENCE and passage[2].endswith(".")]
    sections = [
        [anchor, heading, [passage[2] for passage in group]]
        for (anchor, heading), group in groupby(found, key=lambda passage: passage[:2])
    ]
    title = readable(re.sub(r"<[^>]+>", "", HEADING.findall(text)[-1]))
    return [title, sections]


def script(folder: Path, pages: list[str]) -> str:
    """Write the script that hands all pages' texts to the search."""
    texts = {name: page((folder / f"{name}.html").read_text(encoding="utf-8"), name) for name in pages}
    return f"window.SEARCH_TEXTS = {json.dumps(texts, ensure_ascii=False, separators=(',', ':'))};\n"


def build(app, error):
    """Write it when the pages are there."""
    if error is None and app.builder.name == "html":
        pages = [name for name in sorted(app.env.found_docs) if (Path(app.outdir) / f"{name}.html").exists()]
        (Path(app.outdir) / NAME).write_text(script(Path(app.outdir), pages), encoding="utf-8")


def setup(app):
    """Connect."""
    app.connect("build-finished", build, priority=900)
