"""fonts.css: the text's font, which is that of the figures, and the few icons that pages show, each of few characters.

The icons take the place of 1.7 MB of Font Awesome. Inside a style sheet, fonts are also read where the book is opened
from a file.
"""

import base64
import re
import shutil
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from fontTools import subset

from analysis.core.files import write_atomically

THEME = Path(str(files("pydata_sphinx_theme"))) / "theme/pydata_sphinx_theme/static"
DEJAVU = Path(str(files("matplotlib"))) / "mpl-data/fonts/ttf"  # of every figure: analysis/plotting/book.mplstyle
FACES = {400: "DejaVuSans", 700: "DejaVuSans-Bold"}  # browsers slant them themselves
RANGES = (0x20, 0x180), (0x370, 0x400), (0x2010, 0x2100), (0x2190, 0x2194), (0x2200, 0x2270)  # Latin, Greek, signs
TEXT = "".join(chr(code) for first, end in RANGES for code in range(first, end))
NAMES = (  # a test of the pages tells of one that the theme draws and that is not here
    "angle-left|angle-right|arrow-up|bars|chevron-down|circle-half-stroke|expand|list|magnifying-glass|moon|sun|xmark"
)
NAMED = re.compile(rf'\.(fa-(?:{NAMES})):before(?:,[^{{}}]*)?\{{content:"\\(\w+)"\}}')
OF_THEME = re.compile(r'--pst-icon-[\w-]+:"(.)"')  # icons before titles of boxes and links to other sites
UNFOLD = "\uf107"  # the one that the theme's style sheet gives without a name, of a family called as here
ICONS = "Font Awesome 5 Free"
RULES = f""":root {{ --fa-font-solid: normal 900 1em/1 "{ICONS}"; }}
.fa-solid, .fas {{ font: var(--fa-font-solid); display: inline-block; -webkit-font-smoothing: antialiased; }}
html {{ --pst-font-family-base-system: "DejaVu Sans", sans-serif; }}"""
RULE = '.{name}::before {{ content: "\\{code}"; content: "\\{code}" / ""; }}'  # the second is not read aloud


def face(family: str, weight: int, file: Path, characters: str) -> str:
    """Write a font of these characters alone, with its licence, into a rule of a style sheet."""
    options = subset.Options(
        flavor="woff", hinting=False, name_IDs=["*"], layout_features=["kern"], drop_tables=["FFTM"]
    )
    font, small = subset.load_font(str(file), options), BytesIO()
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters)
    subsetter.subset(font)
    subset.save_font(font, small, options)
    data = base64.b64encode(small.getvalue()).decode()
    source = f'url("data:font/woff;base64,{data}")'
    return f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-display: swap; src: {source}; }}'


def sheet() -> str:
    """Write the style sheet, under Font Awesome's own notice of its licences."""
    (awesome,) = THEME.glob("vendor/fontawesome/*")
    sheets = awesome / "css/all.min.css", THEME / "styles/pydata-sphinx-theme.css"
    all_icons, theme = (path.read_text(encoding="utf-8") for path in sheets)
    named = dict(NAMED.findall(all_icons))
    icons = "".join([*(chr(int(code, 16)) for code in named.values()), *OF_THEME.findall(theme), UNFOLD])
    faces = [face(ICONS, 900, awesome / "webfonts/fa-solid-900.ttf", icons)]
    faces += [face("DejaVu Sans", weight, DEJAVU / f"{name}.ttf", TEXT) for weight, name in FACES.items()]
    rules = [RULE.format(name=name, code=code) for name, code in named.items()]
    return "\n".join([all_icons[: all_icons.index("*/") + 2], *faces, RULES, *rules, ""])


def write_sheet(app):
    """Write it before pages refer to it by its hash, anew in each build: icons may have been added here."""
    target = Path(app.outdir) / "_static/fonts.css"
    if app.builder.format == "html":
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, sheet())


def leave_out_awesome(app, error):
    """Remove Font Awesome, which the theme has copied, and no page refers to."""
    shutil.rmtree(Path(app.outdir) / "_static/vendor/fontawesome", ignore_errors=True)


def setup(app):
    """Register the file and its making."""
    app.add_css_file("fonts.css")
    app.connect("builder-inited", write_sheet)
    app.connect("build-finished", leave_out_awesome)
