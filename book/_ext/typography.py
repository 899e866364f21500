"""How plain text is set on a page: per cent signs after a space, minus signs, powers of ten, thousands, indices.

Numbers that cells hand to the text, sentences of evidence and captions are plain text. Code and formulas stay as they
are. Printed lines wrap on a narrow screen, unless they stand in columns.
"""

import re

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


def set_text(body: str) -> str:
    r"""Set the text of a page's HTML.

    Examples
    --------
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


def in_columns(text: str) -> bool:
    """Say whether printed lines are set in columns, which a wrapped line would break.

    Examples
    --------
    >>> in_columns("skip two  {'d': 1.0}\\nsimilar   {'c': 1.0}"), in_columns("6 are closed,  6 in layer 0")
    (True, False)
    """
    return sum(bool(COLUMN.search(line)) for line in text.splitlines()) > 1


def wrap(app, doctree):
    """Mark the printed lines that may wrap."""
    for block in doctree.findall(nodes.literal_block):
        if "stream" in block.get("classes", ()) and not in_columns(block.astext()):
            block["classes"].append("wraps")


def set_page(app, pagename, templatename, context, doctree):
    """Apply :func:`set_text` to every page but those of the package, where ``W_Q`` is a name in code."""
    if context.get("body") and not pagename.startswith(("book/api", "_modules")):
        context["body"] = set_text(context["body"])


def setup(app):
    """Connect; formulas have been bound to their commas by then."""
    app.connect("doctree-read", wrap)
    app.connect("html-page-context", set_page, priority=600)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
