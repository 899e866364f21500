"""Which pages the book has, and how and with what tests open them."""

import os
import shutil
from pathlib import Path

from book.publish import execution

ROOT = Path(__file__).parents[3]
HTML = ROOT / "_build" / "html"
# The first has no windows, which take almost half of the time that a page costs.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Return the Chromium to use: the environment variable CHROMIUM, or one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def small_book(source, out, *, warning=None, **config):
    """Return what builds a small book; all is set anew, as Sphinx keeps in its defaults what other tests have set."""
    from sphinx.application import Sphinx

    common = {"source_suffix": {".md": "myst-nb"}, "html_theme": "basic", "nb_execution_mode": "off"}
    folders = str(source), None, str(out), f"{out}-doctrees", "html"
    return Sphinx(*folders, confoverrides=common | config, status=None, warning=warning)


PAGES = execution.listed()
PHONE = {"width": 390, "height": 844}
TYPESET = """async () => {
  if (!document.querySelector('.math')) return;
  for (let i = 0; i < 300 && !(window.MathJax && MathJax.startup && MathJax.startup.promise); i++)
    await new Promise(done => setTimeout(done, 50));
  await MathJax.startup.promise;
  for (const print of ['beforeprint', 'afterprint']) dispatchEvent(new Event(print));  // also what is not yet seen
}"""
