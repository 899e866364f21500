"""Figures on a phone: each gets a frame of its own, and the width below which its smallest label would be under 9 px.

The style sheet gives a narrow screen's figures that width; the frame scrolls, the caption stays.
"""

import re
from functools import cache
from pathlib import Path

LABEL = 9  # px on a phone, at least
PX = 4 / 3  # per point, in which matplotlib writes sizes
SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"', re.DOTALL)
GLYPHS = re.compile(r"scale\((0\.\d+) -\1\)")  # a label in outlines is a hundredth of its size tall in points
FIGURE = re.compile(
    r'(<figure\b[^>]*>\s*)<img\b([^>]*\bsrc="[^"]*_images/([^"/]+\.svg)"[^>]*>)'
    r'(?!\s*<div class="play")'
)  # what a viewer replaces


def least_width(svg: str) -> int | None:
    """Return how wide in px a figure must be shown so that its smallest label has 9 px; ``None`` without labels.

    Examples
    --------
    >>> least_width('<svg width="540pt"><g transform="translate(1 2) scale(0.09 -0.09)"></g></svg>')
    540
    """
    width, sizes = SIZE.search(svg), [float(size) * 100 for size in GLYPHS.findall(svg)]
    if not (width and sizes):
        return None
    return -int(-LABEL / (min(sizes) * PX) * float(width[1]) * PX // 1)


@cache
def of_file(path: Path) -> int | None:
    """Return :func:`least_width` of a drawn figure; its name is a hash of what it holds."""
    return least_width(path.read_text(encoding="utf-8")) if path.exists() else None


def frame(app, pagename, templatename, context, doctree):
    """Put every figure of a page that has labels into its frame."""
    files = {name: Path(app.srcdir) / source for source, name in app.builder.images.items()}

    def framed(match: re.Match) -> str:
        least = of_file(files[match[3]]) if match[3] in files else None
        if least is None:
            return match[0]
        return f'{match[1]}<div class="figure-frame"><img style="--least: {least}px"{match[2]}</div>'

    if context.get("body"):
        context["body"] = FIGURE.sub(framed, context["body"])


def setup(app):
    """Connect."""
    app.connect("html-page-context", frame)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
