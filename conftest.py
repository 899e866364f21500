"""Lets pytest run the book's chapters: ``python -m pytest --nbval book`` (see ``book/publish/compare.py``)."""

pytest_plugins = ["book.publish.compare"]
