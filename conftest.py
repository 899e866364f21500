"""Lets pytest run the book's chapters: ``python -m pytest --nbval book`` (see ``book/publish/compare.py``)."""

import os
import sys

if not any(argument.startswith("--nbval") for argument in sys.argv):
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before the plugin imports numpy: no test depends on the cores

pytest_plugins = ["book.publish.compare"]
