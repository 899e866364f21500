"""The code and the printed lines of a page, made to fit it.

In the code, the caption of a table is written as ``...``: it stands above the table, in full. The downloaded notebook
has the cell as it ran. Printed lines wrap on a narrow screen, unless they stand in columns.
"""

import ast
import re

from docutils import nodes

WIDTH = 84  # of a line of code on a page
COLUMN = re.compile(r"\S {2,}\S")
CALL = re.compile(r"^publish\.table\((?:.|\n)*?\)$", re.MULTILINE)


def without_captions(source: str) -> str:
    """Return a cell's source with ``...`` in place of the captions that ``publish.table`` is given.

    Examples
    --------
    >>> without_captions("publish.table(frame, form='.1f', caption=(\\n    'One. '\\n    'Two.'))")
    "publish.table(frame, form='.1f', caption=...)"
    >>> without_captions("publish.table(frame, 'One.')"), without_captions("print('caption')")
    ('publish.table(frame, ...)', "print('caption')")
    """
    if "publish.table(" not in source:
        return source
    try:
        tree = ast.parse(source)
    except SyntaxError:  # magics
        return source
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "publish.table"]
    places = [place(source, call) for call in calls]
    for start, end in sorted(filter(None, places), reverse=True):
        source = source[:start] + "..." + source[end:]
    return joined(source)


def joined(source: str) -> str:
    """Put what is left of a call on one line, where it fits.

    Examples
    --------
    >>> joined("publish.table(\\n    frame,\\n    ...)")
    'publish.table(frame, ...)'
    """

    def one_line(match: re.Match) -> str:
        line = re.sub(r"\s*\n\s*", " ", match[0]).replace("( ", "(")
        return line if len(line) <= WIDTH else re.sub(r",\s*\n\s*((?:caption=)?\.\.\.)", r", \1", match[0])

    return CALL.sub(one_line, source)


def in_columns(text: str) -> bool:
    """Say whether printed lines are set in columns, which a wrapped line would break.

    Examples
    --------
    >>> in_columns("skip two  {'d': 1.0}\\nsimilar   {'c': 1.0}"), in_columns("6 are closed,  6 in layer 0")
    (True, False)
    """
    return sum(bool(COLUMN.search(line)) for line in text.splitlines()) > 1


def place(source: str, call: ast.Call) -> tuple[int, int] | None:
    """Return where the caption's expression begins and ends in the source, with the brackets around it."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "caption"), None)
    caption = named or (call.args[1] if len(call.args) > 1 else None)
    if caption is None:
        return None
    lines = source.split("\n")

    def offset(line: int, column: int) -> int:
        before = sum(len(each) + 1 for each in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:column].decode())

    start, end = offset(caption.lineno, caption.col_offset), offset(caption.end_lineno, caption.end_col_offset)
    while source[:start].rstrip().endswith("(") and source[end:].lstrip().startswith(")") and not closes(source, start):
        start, end = len(source[:start].rstrip()) - 1, end + source[end:].index(")") + 1
    return start, end


def closes(source: str, start: int) -> bool:
    """Say whether the bracket before a place is that of the call itself, and not one around the caption."""
    return source[:start].rstrip().endswith("publish.table(")


def shorten(app, doctree):
    """Shorten the code that pages show, and mark the printed lines that may wrap."""
    for block in doctree.findall(nodes.literal_block):
        if "cell_input" in block.parent.get("classes", ()):
            text = without_captions(block.astext())
            block.rawsource, block.children = text, [nodes.Text(text)]
        elif "stream" in block.get("classes", ()) and not in_columns(block.astext()):
            block["classes"].append("wraps")


def setup(app):
    """Register the event."""
    app.connect("doctree-read", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
