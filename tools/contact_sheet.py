"""Make one picture of many: ``python -m tools.contact_sheet OUT`` writes first-screens.png and figures.png.

The first screens of all stories as a reader sees them at 1,250 x 900, and all figures of the book by name; to be looked
at before and after a change, and not kept. Needs the built book, playwright and a Chromium.
"""

import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from tools import stories

SCREEN = {"width": 1250, "height": 900}
CELL = (420, 310)
HEADER = 18


def sheet(pictures: Sequence[tuple[str, Image.Image]], columns: int = 4) -> Image.Image:
    """Put pictures side by side, each within a cell under its name.

    >>> made = sheet([("a", Image.new("RGB", (1250, 900))), ("b", Image.new("RGB", (10, 10)))], columns=2)
    >>> made.size == (2 * CELL[0], CELL[1])
    True
    """
    if not pictures:
        raise ValueError("pictures is empty: is the book built?")
    width, height = CELL
    made = Image.new("RGB", (columns * width, math.ceil(len(pictures) / columns) * height), "white")
    draw = ImageDraw.Draw(made)
    for place, (name, picture) in enumerate(pictures):
        left, top = place % columns * width, place // columns * height
        small = picture.convert("RGB")
        small.thumbnail((width - 8, height - HEADER - 8))
        made.paste(small, (left + 4, top + HEADER))
        draw.text((left + 4, top + 3), name, fill="black")
    return made


def first_screens(html: Path) -> list[tuple[str, Image.Image]]:
    """Return what a reader of each story sees first."""
    from playwright.sync_api import sync_playwright

    from tests.book.pages.book_pages import chromium

    shown = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tab = browser.new_page(viewport=SCREEN)
        for page in stories.pages():
            tab.goto((html / f"{page}.html").as_uri(), wait_until="load")
            shown.append((page.removeprefix("book/"), Image.open(io.BytesIO(tab.screenshot()))))
        browser.close()
    return shown


def figures(html: Path) -> list[tuple[str, Image.Image]]:
    """Return all figures of the book, by name."""
    return [(path.stem, Image.open(path)) for path in sorted((html / "_downloads" / "figures").glob("*.png"))]


def main():
    """Write both sheets."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, pictures in (("first-screens", first_screens(stories.HTML)), ("figures", figures(stories.HTML))):
        sheet(pictures).save(out / f"{name}.png")


if __name__ == "__main__":
    main()
