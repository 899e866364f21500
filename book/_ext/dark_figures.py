"""Figures in the dark: drawn once, each carries the rules by which a browser shows it in the page's theme.

A picture in a page follows the page's ``color-scheme``, so nothing is drawn twice. Ground, lines and letters turn; the
maps keep their colours, as in the viewers, and so do letters on them.
"""

from pathlib import Path

GROUND, LINE, LETTER, PANE = "#14181e", "#d5d5d5", "#ececec", "#2c323c"
# Strokes and marks that would be too dim on the dark ground: their hue, lighter.
LIGHTER = {
    "#0072b2": "#2d8acc",  # content, trained
    "#56b4e9": "#9ad6f7",  # uniform: as far from the blue above as before
    "#7a4b20": "#b5804a",  # inverse directional
    "#8a5fbf": "#a985d6",  # forward
    "#cc2a6a": "#e0588e",  # instance
    "#440154": "#9a5fb0",  # the first of a row of layers
    "#414487": "#7377c4",
    "#1b6b36": "#3a9a5c",  # verdicts
    "#a11c33": "#d0495f",
    "#dddddd": "#3a414c",  # the grid
    "#e4e4e4": "#4a515c",  # what is closed or open
}
DRAWN = "Matplotlib"
FIRST = " <defs>\n  <style"


def rules() -> str:
    """Return the style that a figure carries."""
    lines = [
        f"svg {{ fill: {LETTER}; }}",
        f'[style*="stroke: #000000"], [style*="stroke: #222222"] {{ stroke: {LINE} !important; }}',
        f'use[style*="fill: #222222"], use[style*="fill: #000000"] {{ fill: {LINE} !important; }}',
        f'[id^="figure"] > [id^="patch"] > path, [id^="axes"] > [id^="patch"]:first-child > path '
        f"{{ fill: {GROUND} !important; }}",
        f'[id^="pane3d"] path {{ fill: {PANE} !important; }}',
        '[id^="Path3DCollection"] { filter: invert(.2) brightness(1.4); }',
    ]
    for colour, lighter in LIGHTER.items():
        lines += [f'[style*="{kind}: {colour}"] {{ {kind}: {lighter} !important; }}' for kind in ("stroke", "fill")]
    return '<style type="text/css">@media (prefers-color-scheme: dark) {\n' + "\n".join(lines) + "\n}</style>"


def in_both(svg: str) -> str:
    """Return a figure as matplotlib writes it with the rules for the dark, once.

    >>> drawn = "<!-- Matplotlib --> <defs>\\n  <style>"
    >>> in_both(in_both(drawn)).count("prefers-color-scheme")
    1
    """
    return svg.replace(FIRST, f" <defs>{rules()}\n  <style", 1) if DRAWN in svg else svg


def give_rules(app, failed):
    """Give every figure of the built book its rules."""
    if failed or app.builder.format != "html":
        return
    for path in Path(app.outdir, app.builder.imagedir).glob("*.svg"):
        drawn = path.read_text(encoding="utf-8")
        if (shown := in_both(drawn)) != drawn:
            path.write_text(shown, encoding="utf-8")


def setup(app):
    """Connect."""
    app.connect("build-finished", give_rules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
