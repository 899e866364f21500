"""What the checks of sources and built pages share."""

from pathlib import Path

import pytest
from book_pages import HTML, PAGES


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``page`` once per page of the table of contents, unless it names its own."""
    marks = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    named = {name for names in marks for name in ([names] if isinstance(names, str) else names)}
    if "page" in metafunc.fixturenames and "page" not in named:
        metafunc.parametrize("page", PAGES)


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built pages."""
    if not (HTML / "index.html").exists():
        pytest.skip("the book is not built; run make book")
    return HTML
