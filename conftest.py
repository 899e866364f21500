"""Lets pytest run the book's chapters: ``python -m pytest --nbval book`` (see ``book/_ext/chapters.py``)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "book" / "_ext"))
pytest_plugins = ["chapters"]
