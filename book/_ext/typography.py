"""How a page's HTML is set: signs, powers, indices and formulas in its text, and frames around its figures.

Numbers that cells hand to the text, sentences of evidence and captions are plain text. Code and formulas stay as they
are. Printed lines wrap on a narrow screen, unless they stand in columns. A figure gets a frame of its own and the
width below which its smallest label would be under 9 px; the style sheet gives a phone's figures that width, and the
frame scrolls. All but the first figure of a page are loaded when they come near the screen.
"""

import re
from functools import cache
from itertools import count
from pathlib import Path

from docutils import nodes

PIECE = re.compile(  # what is left alone, tag by tag, and the text between
    r"<(pre|code|script|style|svg|math)\b.*?</\1>"
    r'|<(span|div|dt) class="(?:math|pre|sig)\b.*?</\2>'
    r'|(?P<glued><span class="pasted-text">\d{4,}</span>)|<[^>]*>|(?P<text>[^<]+)',
    re.DOTALL,
)
PER_CENT = re.compile(r"(\d) ?%(?!\w)")
JOINED = re.compile(r"\w(?:</\w+>)+$")  # a word before this text, as in "<em>GPT</em>-2"
LONGEST_END = 60  # characters of a word's last letter with the tags that end after it
MINUS = re.compile(r"(?<=[\s(\[])-(?=\d)|^-(?=[\d.,]+\s?%?(?:(?: to |, ).*)?$)")
INDEX = re.compile(r"\b([A-Zb])_([QKVOPM]{1,2}|\d)\b")
POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e([-\u2212+])0*(\d+)\b")
TIMES = re.compile(r"(?<=\d) x (?=\d)")
ROOT = re.compile(r"\bsqrt\((\w+)\)")
SHORT = re.compile(r"<td>(?=[\d+\u2212][^<]{0,13}</td>)")  # a number or a range in a table, which needs no second line
INTERVAL = re.compile(r"<td>(?=[\d+\u2212][^<]{14,19}</td>)")  # a number with its bounds, where there is room
SOLUTION = re.compile(r"(Solution to)(<a [^>]*>) ")
LESS = re.compile(r"&lt; (?=\d)")
SIGNS = {"&lt;=": "\u2264", "-&gt;": "\u2192", ")^T": ")<sup>T</sup>", "sigma(p)": "\u03c3(p)"}
COLUMN = re.compile(r"\S {2,}\S")
EXPONENT = re.compile(r"\bT\^(p{1,2}|e{1,2}|ep|pe)\b")
FORMULA = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([,.;:!?)]+)')
PREFORMATTED = re.compile(r"(<pre.*?</pre>)", re.DOTALL)

LABEL = 9  # px on a phone, at least
PX = 4 / 3  # per point, in which matplotlib writes sizes
SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"(?:\s+height="([\d.]+)pt")?', re.DOTALL)
GLYPHS = re.compile(r"scale\((0\.\d+) -\1\)")  # a label in outlines is a hundredth of its size tall in points
FIGURE = re.compile(
    r'(<figure\b[^>]*>\s*)<img\b([^>]*\bsrc="[^"]*_images/([^"/]+\.svg)"[^>]*>)'
    r'(?!\s*<div class="play")'
)  # what a viewer replaces


def set_text(body: str) -> str:
    r"""Set the text of a page's HTML.

    >>> print(set_text('<span class="pasted-text">18969</span> words'))
    <span class="pasted-text">18,969</span> words
    >>> print(set_text("<b>-0.5 to 31%</b> of b_Q, as T^p <code>b_Q -1 5%</code>").replace("\u00a0", "~"))
    <b>−0.5 to 31~%</b> of b<sub>Q</sub>, as T<sup>p</sup> <code>b_Q -1 5%</code>
    >>> print(set_text("<td>2e+00 to 1e-05</td> i &lt;= 5 x 5 and sqrt(64)").replace("\u00a0", "~"))
    <td>2 to 10<sup>−5</sup></td> i ≤ 5~×~5 and √64
    >>> print(set_text("<td>0.1 to 0.2</td>"))
    <td class="short">0.1 to 0.2</td>
    """
    body = SHORT.sub('<td class="short">', PIECE.sub(_piece, body))
    return SOLUTION.sub(r"\1 \2", INTERVAL.sub('<td class="interval">', body))


def _piece(match: re.Match) -> str:
    if match["glued"]:
        return re.sub(r"\d+", lambda number: f"{int(number[0]):,}", match[0])
    if match["text"] is None:
        return match[0]
    before = match.string[max(0, match.start() - LONGEST_END) : match.start()]
    if match["text"].startswith("-") and JOINED.search(before):  # a hyphen
        return "-" + _set(match["text"][1:])
    return _set(match["text"])


def _set(text: str) -> str:
    text = POWER.sub(_power, text)
    for typed, sign in SIGNS.items():
        text = text.replace(typed, sign)
    text = ROOT.sub("\u221a\\1", TIMES.sub("\u00a0\u00d7\u00a0", LESS.sub("&lt;\u00a0", text)))
    text = PER_CENT.sub("\\1\u00a0%", MINUS.sub("\u2212", text)).replace("\u22120\u00a0%", "0\u00a0%")
    return EXPONENT.sub(r"T<sup>\1</sup>", INDEX.sub(r"\1<sub>\2</sub>", text))


def _power(match: re.Match) -> str:
    factor, sign, power = match.groups()
    if power == "0":
        return factor
    return f"{'' if factor == '1' else factor + chr(0xB7)}10<sup>{'' if sign == '+' else chr(0x2212)}{power}</sup>"


def keep_together(body: str) -> str:
    """Keep a formula and the comma after it on one line, and a number and its per cent sign."""
    parts = PREFORMATTED.split(body)  # what is odd is preformatted
    bound = [FORMULA.sub(r'<span class="nobreak">\1\2</span>', part) for part in parts[::2]]
    parts[::2] = [re.sub(r"(\d) %", "\\1\u00a0%", part) for part in bound]
    return "".join(parts)


def in_columns(text: str) -> bool:
    """Say whether printed lines are set in columns, which a wrapped line would break.

    >>> in_columns("skip two  {'d': 1.0}\\nsimilar   {'c': 1.0}"), in_columns("6 are closed,  6 in layer 0")
    (True, False)
    """
    return sum(bool(COLUMN.search(line)) for line in text.splitlines()) > 1


def wrap(app, doctree):
    """Mark the printed lines that may wrap."""
    for block in doctree.findall(nodes.literal_block):
        if "stream" in block.get("classes", ()) and not in_columns(block.astext()):
            block["classes"].append("wraps")


def least_width(svg: str) -> int | None:
    """Return how wide in px a figure must be shown so that its smallest label has 9 px; ``None`` without labels.

    >>> least_width('<svg width="540pt"><g transform="translate(1 2) scale(0.09 -0.09)"></g></svg>')
    540
    """
    width, sizes = SIZE.search(svg), [float(size) * 100 for size in GLYPHS.findall(svg)]
    if not (width and sizes):
        return None
    return -int(-LABEL / (min(sizes) * PX) * float(width[1]) * PX // 1)


def room(svg: str) -> str:
    """Return the attributes by which a browser keeps room for a figure that it has not loaded.

    >>> room('<svg width="540pt" height="240pt">')
    ' loading="lazy" width="720" height="320"'
    """
    size = SIZE.search(svg)
    if not (size and size[2]):
        return ""
    return ' loading="lazy" width="{:.0f}" height="{:.0f}"'.format(*(float(length) * PX for length in size.groups()))


@cache
def of_file(path: Path) -> tuple[int | None, str]:
    """Return :func:`least_width` and :func:`room` of a drawn figure; its name is a hash of what it holds."""
    svg = path.read_text(encoding="utf-8") if path.exists() else ""
    return least_width(svg), room(svg)


def frame(body: str, files: dict[str, Path]) -> str:
    """Put every figure that has labels into its frame; the files are those of a page by their names."""
    before = count()

    def framed(match: re.Match) -> str:
        least, later = of_file(files[match[3]]) if match[3] in files else (None, "")
        if least is None:
            return match[0]
        later = later if next(before) else ""
        return f'{match[1]}<div class="figure-frame"><img style="--least: {least}px"{later}{match[2]}</div>'

    return FIGURE.sub(framed, body)


def set_page(app, pagename, templatename, context, doctree):
    """Set every page; on those of the package ``W_Q`` is a name in code."""
    if context.get("body"):
        body = keep_together(context["body"])
        body = body if pagename.startswith(("book/api", "_modules")) else set_text(body)
        files = {name: Path(app.srcdir) / source for source, name in app.builder.images.items()}
        context["body"] = frame(body, files)


def setup(app):
    """Connect."""
    app.connect("doctree-read", wrap)
    app.connect("html-page-context", set_page, priority=600)
