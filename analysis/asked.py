"""What an execution of a chapter was asked for: another model, other texts. Empty when the book is built.

``python -m analysis run`` sets the two variables for the one chapter that it executes; nothing else does. What a name
means is decided by ``models`` and ``texts``, what follows for records and verdicts by ``experiments`` and ``ledger``.
"""

import os

MODEL, TEXTS = "ANALYSIS_MODEL", "ANALYSIS_TEXTS"
_own: set[str] = set()


def model(default: str) -> str:
    """Return the model's name that was asked for, else the chapter's own.

    Examples
    --------
    >>> model("minilm")
    'minilm'
    """
    _own.add(default)
    return os.environ.get(MODEL) or default


def texts() -> str | None:
    """Return the path of the texts that were asked for, else ``None``."""
    return os.environ.get(TEXTS) or None


def other_model() -> bool:
    """Say whether another model was asked for than the chapter's own."""
    asked = os.environ.get(MODEL)
    return bool(asked and asked not in _own)


def departs() -> bool:
    """Say whether this execution departs from the book: another model than the chapter's own, or other texts."""
    return texts() is not None or other_model()


def describe() -> str:
    """Name what was asked for, for a sentence: ``the model my-bert``, ``your texts`` or both.

    Examples
    --------
    >>> describe()
    "the book's own inputs"
    """
    parts = [f"the model {os.path.basename(os.environ[MODEL].rstrip('/'))}" if other_model() else "",
             f"the texts of {os.path.basename(texts().rstrip('/'))}" if texts() else ""]
    return " and ".join(filter(None, parts)) or "the book's own inputs"


def forget() -> None:
    """Drop both, so that what is recorded, checked or built is the book's own."""
    for name in (MODEL, TEXTS):
        os.environ.pop(name, None)
