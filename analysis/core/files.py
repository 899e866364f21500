"""Files: written whole or not at all, hashed once, and one writer at a time.

Everything that this package writes goes through here: models, records, states of interrupted runs, the book's build.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a file whole or not at all: under a temporary name beside it, then renamed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/a.txt", "one line")
    ...     Path(folder, "a.txt").read_text(), len(list(Path(folder).iterdir()))
    ('one line', 1)
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: object) -> None:
    """Write a value as indented JSON, atomically; the folder is made if it is missing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def make_writable(folder: str | Path) -> Path:
    """Make the folder and try to write into it, so that a refusal comes before any computing.

    Raises
    ------
    PermissionError
        If it cannot be made or written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PermissionError(f"cannot write to {folder}: {error.strerror}") from None
    return folder


def sha256(path: str | Path) -> str:
    """Return the sha256 of a file's bytes; an unchanged file is read once."""
    stat = Path(path).stat()
    return _sha256(str(path), stat.st_size, stat.st_mtime_ns)


@cache
def _sha256(path: str, size: int, modified: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def lock(path: str | Path) -> Iterator[None]:
    """Hold an exclusive lock on a file or a folder; a second process waits. Without fcntl (Windows) there is none."""
    path = Path(path)
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which releases the lock
