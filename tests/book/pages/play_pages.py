"""Pages with one viewer each, made without building the book, and opened from a file as a reader does."""

import shutil
from pathlib import Path

from book._ext import viewers
from book.viewers import record_script, weights_script

ASSETS = Path(__file__).parents[3] / "book" / "assets"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACADs="
DESK = {"width": 1250, "height": 900}
SPACE = "<div style='height: 3000px'></div>"


def write(folder: Path, name: str, *, before: str = "") -> Path:
    """Write a page with the viewer, its scripts and what they read beside it; return its path."""
    shutil.copytree(ASSETS / "play", folder / "play", dirs_exist_ok=True)
    for model in viewers.MODELS if name == "sentence" else ():
        (folder / "play" / f"{model}.js").write_text(weights_script.script(model), encoding="utf-8")
    if record := viewers.RECORDS.get(name):
        for part, written in record_script.scripts(record).items():
            (folder / "play" / f"{part}.js").write_text(written, encoding="utf-8")
    scripts = "".join(f'<script src="{script}" defer></script>' for script in viewers.scripts(name))
    _, start = viewers.picture(name)
    path = folder / f"{name}.html"
    path.write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="stylesheet" href="play/play.css">{scripts}
</head><body><main class="bd-article"><h1>{name}</h1>{before}<figure id="fig-{name}"><img src="{PIXEL}" alt="static">
{viewers.place(name, start)}<figcaption>The caption.</figcaption></figure></main></body></html>""",
        encoding="utf-8",
    )
    return path


def slide(page, label: str, value: float) -> None:
    """Move a slider as a reader does."""
    page.get_by_label(label, exact=True).evaluate(
        "(range, x) => { range.value = x; range.dispatchEvent(new Event('input')); }", value
    )


class Tab:
    """A tab of the browser that notes errors and what is asked for."""

    def __init__(self, browser, viewport=None, **options):
        self.context = browser.new_context(viewport=viewport or DESK, **options)
        self.page = self.context.new_page()
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, query: str = ""):
        """Open the page and wait until the viewer is there."""
        self.page.goto(path.as_uri() + query, wait_until="load")
        self.page.locator(".play[data-ready]").wait_for()
        return self.page

    def close(self):
        """Close; nothing may have gone wrong, and nothing been asked of a network."""
        self.context.close()
        assert not self.errors
        assert all(url.startswith(("file:", "data:", "blob:")) for url in self.requests)
