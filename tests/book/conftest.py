"""What the checks of sources and built pages share."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"


def toc_pages() -> list[str]:
    """Return the pages of the table of contents, as ``book/semi-bias``, in order."""
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    return re.findall(r"^\s*(?:root|- file): (\S+)", toc, re.MULTILINE)



PAGES = toc_pages()


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``page`` once per page of the table of contents."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES)


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built pages."""
    if not (HTML / "index.html").exists():
        pytest.skip("the book is not built; run make book")
    return HTML
