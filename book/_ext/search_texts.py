"""What the search page reads beside Sphinx's index: every page's passages, with the section that each stands in.

``search-texts.js`` is made of the built pages when the HTML is done. It gives a result its line of text and the
address of its section also where the book is opened from a file, from which a browser lets no script read other pages.
"""

import json
import re
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

NAME = "search-texts.js"
ARTICLE = re.compile(r'<article class="bd-article"[^>]*>(.*)</article>', re.DOTALL)
HEADING = re.compile(r"<h1>((?:(?!</h1>|<a class=\"headerlink).)*)", re.DOTALL)  # the last has the chapter's number
HEADINGS = {"h1", "h2", "h3", "h4"}
PASSAGES = HEADINGS | {"p", "li", "tr", "dt", "dd", "figcaption", "caption"}
ANCHORED = {"section", "div", "figure", "dt", "dl", "tr", "table"}
LEFT_OUT = {"script", "style", "pre", "nav", "button", "noscript", "svg", "form", "summary"}
RAISED = {"sub": "_", "sup": "^"}  # as formulas write an index and an exponent
NOISE = {"headerlink", "downloads", "collapsed", "expanded", "stamp"}  # classes of what is no text of the page
PACKAGE = "book/api"  # of its pages, whose names Sphinx's index has, only the sentences
SENTENCE = 40  # characters of the shortest of them
EMPTY = {"img", "br", "hr", "input", "meta", "link", "col", "wbr", "source"}
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


class Passages(HTMLParser):
    """The passages of an article: ``(anchor, heading, text)``, each with the section, figure or row that it is in."""

    def __init__(self, article: str):
        super().__init__()
        self.passages: list[tuple[str, str, str]] = []
        self.open: list[tuple[str, str, str, bool]] = []  # of each open element: tag, anchor and heading before, silent
        self.words: list[str] = []
        self.anchor, self.heading, self.term = "", "", ""
        self.feed(article)
        self.flush()

    def flush(self, *, heading: bool = False) -> None:
        """End a passage."""
        text, self.words = readable("".join(self.words)), []
        if heading:
            self.heading = text
        elif text:
            self.passages.append((self.anchor, self.heading, f"{self.term}: {text}" if self.term else text))
            self.term = ""

    def name(self) -> None:
        """Keep what a term says for the definition that follows; several terms of one definition together."""
        text, self.words = readable("".join(self.words)), []
        self.term = ", ".join(part for part in (self.term, text) if part)

    def handle_starttag(self, tag, attrs):
        if tag in EMPTY:
            return
        if self.ends(tag):
            self.flush()
        if not self.silent():
            self.words.append(RAISED.get(tag, ""))
        values = dict(attrs)
        silent = self.silent() or tag in LEFT_OUT or bool(NOISE & set((values.get("class") or "").split()))
        self.open.append((tag, self.anchor, self.heading, silent))
        if values.get("id") and not silent and tag in ANCHORED:
            self.anchor = values["id"]

    def handle_endtag(self, tag):
        if tag == "dt" and not self.silent() and self.ends(tag):
            self.name()
        elif self.ends(tag):
            self.flush(heading=tag in HEADINGS)
        elif tag in {"td", "th"}:
            self.words.append(" ")
        while self.open:
            name, anchor, heading, _ = self.open.pop()
            if name == tag:
                if tag in ANCHORED - {"dt"}:  # what a term names holds for its definition
                    self.anchor = anchor
                self.heading = heading if tag == "section" else self.heading
                return

    def handle_data(self, data):
        if not self.silent():
            self.words.append(data)

    def silent(self) -> bool:
        """Say whether the parser is inside what is left out."""
        return bool(self.open) and self.open[-1][3]

    def ends(self, tag: str) -> bool:
        """Say whether the tag parts passages; a row of a table is one passage."""
        return tag in PASSAGES and (tag == "tr" or not any(name == "tr" for name, *_ in self.open))


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
    passages = Passages(article[1]).passages if article else []
    if name.startswith(PACKAGE):
        passages = [passage for passage in passages if len(passage[2]) >= SENTENCE and passage[2].endswith(".")]
    sections = [
        [anchor, heading, [passage[2] for passage in group]]
        for (anchor, heading), group in groupby(passages, key=lambda passage: passage[:2])
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
