"""icons.css: the few icons that pages show, as a font inside a style sheet, in place of 1.7 MB of Font Awesome.

Inside the style sheet it is also read where the book is opened from a file, from which browsers refuse fonts.
"""

import base64
import re
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from fontTools import subset

from analysis.core.files import write_atomically

STATIC = Path(str(files("pydata_sphinx_theme"))) / "theme/pydata_sphinx_theme/static"
NAMES = (  # a test of the pages tells of one that the theme draws and that is not here
    "angle-left|angle-right|arrow-up|bars|chevron-down|circle-half-stroke|expand|list|magnifying-glass|moon|sun|xmark"
)
NAMED = re.compile(rf'\.(fa-(?:{NAMES})):before(?:,[^{{}}]*)?\{{content:"\\(\w+)"\}}')
OF_THEME = re.compile(r'--pst-icon-[\w-]+:"(.)"')  # icons before titles of boxes and links to other sites
UNFOLD = "\uf107"  # the one that the theme's style sheet gives without a name, of a family called as here
SHEET = """{notice}
@font-face {{ font-family: "Font Awesome 5 Free"; font-weight: 900; src: url("data:font/woff;base64,{font}"); }}
:root {{ --fa-font-solid: normal 900 1em/1 "Font Awesome 5 Free"; }}
.fa-solid, .fas {{ font: var(--fa-font-solid); display: inline-block; -webkit-font-smoothing: antialiased; }}
{rules}
"""
RULE = '.{name}::before {{ content: "\\{code}"; content: "\\{code}" / ""; }}'  # the second is not read aloud


def font(icons: str) -> bytes:
    """Return Font Awesome's font with these icons alone, each a character."""
    (file,) = STATIC.glob("vendor/fontawesome/*/webfonts/fa-solid-900.ttf")
    options = subset.Options(flavor="woff", notdef_outline=True, name_IDs=["*"])
    whole, small = subset.load_font(str(file), options), BytesIO()
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=icons)
    subsetter.subset(whole)
    subset.save_font(whole, small, options)
    return small.getvalue()


def sheet() -> str:
    """Write the style sheet, under Font Awesome's own notice of its licences."""
    (file,) = STATIC.glob("vendor/fontawesome/*/css/all.min.css")
    all_icons, theme = (path.read_text(encoding="utf-8") for path in (file, STATIC / "styles/pydata-sphinx-theme.css"))
    named = dict(NAMED.findall(all_icons))
    small = font("".join([*(chr(int(code, 16)) for code in named.values()), *OF_THEME.findall(theme), UNFOLD]))
    rules = "\n".join(RULE.format(name=name, code=code) for name, code in named.items())
    notice = all_icons[: all_icons.index("*/") + 2]
    return SHEET.format(notice=notice, font=base64.b64encode(small).decode(), rules=rules)


def write_sheet(app):
    """Write it once, before pages refer to it by its hash."""
    target = Path(app.outdir) / "_static/icons.css"
    if app.builder.format == "html" and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, sheet())


def setup(app):
    """Register the file and its making."""
    app.add_css_file("icons.css")
    app.connect("builder-inited", write_sheet)
