"""Files: written whole or not at all, hashed once, and one writer at a time.

Everything that this package writes goes through here: models, records, states of interrupted runs, the book's build.
"""

import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

MARK = ".attention-taken-apart"
"""The file in a folder of results that says, in one word, what kind of results they are."""
WRITTEN = ".written.json"
"""The file in a folder of results that lists what was written there, each with the sha256 of all that it may be."""
NAMED = 3
"""Entries of a foreign folder that a refusal names."""
LARGEST = 2**30
"""Bytes of a file of text, JSON or words, at most: such a file is read at once."""


def resolve_path(path: str | Path) -> Path:
    """Return a path as it is without ``~`` and links.

    Raises
    ------
    ValueError
        If no user has the home that is named, or a link leads to itself.

    Examples
    --------
    >>> resolve_path("~no-such-user/a")
    Traceback (most recent call last):
    ValueError: ~no-such-user/a cannot be followed: Could not determine home directory.
    """
    try:
        return Path(path).expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise ValueError(f"{path} cannot be followed: {error}") from None


def check_regular(path: str | Path, largest: int | None = None) -> None:
    """Raise for a pipe, a socket or a device, where reading may never end, and a file of more bytes than ``largest``.

    Raises
    ------
    OSError
        Naming the file; also if it is not there.

    Examples
    --------
    >>> check_regular("/dev/null")
    Traceback (most recent call last):
    OSError: [Errno 22] is a pipe, a socket or a device: give a file: '/dev/null'
    """
    status = Path(path).stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # reading a folder says what it is
        raise OSError(errno.EINVAL, "is a pipe, a socket or a device: give a file", str(path))
    if largest is not None and status.st_size > largest:
        raise OSError(errno.EFBIG, f"has {status.st_size:,} bytes: at most {largest:,} are read", str(path))


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a file whole or not at all: under a temporary name in the same folder, then renamed.

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
    except OSError as error:  # of a full disk the system says no name
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: object) -> None:
    """Write a value as indented JSON, atomically; the folder is made if it is missing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json_object(path: str | Path) -> dict:
    """Read a file that must hold one JSON object, from whomever it comes.

    Raises
    ------
    OSError
        If it cannot be read, or is not a file (`check_regular`).
    ValueError
        If it is not text, no JSON, nested too deeply, or holds something else.
    """
    check_regular(path, LARGEST)
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}")
    return value


def make_writable(folder: str | Path) -> Path:
    """Make the folder and try to write into it, so that a refusal comes before any computing.

    Raises
    ------
    PermissionError
        If it cannot be made or written to, or lies in git's own folder.
    """
    folder = Path(folder)
    if ".git" in Path(os.path.realpath(folder)).parts:
        raise PermissionError(f"cannot write to {folder}: it lies in .git, where git keeps what it knows")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, RecursionError) as error:  # of a path with a thousand folders
        raise PermissionError(f"cannot write to {folder}: {getattr(error, 'strerror', error)}") from None
    return folder


@contextmanager
def write_together(folder: str | Path) -> Iterator[Path]:
    """Give a temporary folder within ``folder``; its files take their places there when all of them are written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_together(folder) as part:
    ...         write_atomically(part / "a.txt", "one line")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.txt']
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
        yield Path(part)
        for file in sorted(Path(part).iterdir()):
            file.chmod(0o644)
            file.replace(Path(folder, file.name))


def sha256(path: str | Path) -> str:
    """Return the sha256 of a file's bytes; an unchanged file is read once."""
    check_regular(path)
    status = Path(path).stat()
    return _sha256(str(path), status.st_size, status.st_mtime_ns)


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


class Refused(OSError):
    """A folder holds what this program did not write, or another process writes into it; the message names both."""


def digest_of(path: Path) -> str:
    """Return the sha256 of a file, of a link that of where it leads."""
    return hashlib.sha256(os.readlink(path).encode()).hexdigest() if path.is_symlink() else sha256(path)


def read_written(folder: Path) -> dict[str, list[str]]:
    """Return what earlier runs wrote into a folder; nothing where no list is, or none of ours."""
    with suppress(OSError, ValueError):
        listed = read_json_object(folder / WRITTEN)
        return {name: digests for name, digests in listed.items() if isinstance(digests, list)}
    return {}


def refuse_changed(folder: Path, files: Mapping[str, str]) -> None:
    """Raise for files that no earlier run wrote as they are.

    Parameters
    ----------
    files
        What would be replaced, by its name in the folder, with what it is now (`digest_of`).
    """
    listed = read_written(folder)
    for name, digest in files.items():
        if digest not in listed.get(name, ()):
            raise Refused(
                f"{folder / name} was not written by an earlier run, or was changed since, and would be lost: move it, "
                "or give another folder"
            )


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: digest_of(folder / name) for name in names if os.path.lexists(folder / name)}


@contextmanager
def claim_folder(folder: str | Path, kind: str, files: Sequence[str] = ()) -> Iterator[Path]:
    """Hold a folder for results of one kind, so that nothing of anybody else is overwritten, and nothing by two.

    The folder is made if it is missing. While it is held, another process gets an error at once. A folder that gets
    nothing is left as it was.

    Parameters
    ----------
    folder
        Where results are to be written: new, empty, or marked (:data:`MARK`) by an earlier claim of the same kind.
    kind
        What is written, in one word or a few, such as ``"census"``; it is in the mark and in the refusals.
    files
        The names of all files that may be written, which are listed in :data:`WRITTEN` at the end.

    Raises
    ------
    Refused
        If the folder is neither new nor empty nor marked for this kind, or is being written into; or one of ``files``
        is there and is not what an earlier run wrote.
    PermissionError
        If it cannot be made or written to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with claim_folder(f"{parent}/results", "census") as folder:
    ...         write_atomically(folder / "a.txt", "one line")
    ...     with claim_folder(folder, "training"):
    ...         pass
    Traceback (most recent call last):
    analysis.core.files.Refused: ... holds results of another kind ('census'): ...
    """
    folder = Path(folder)
    # Nothing foreign may lie in it, and its mark must be a file of ours.
    is_new = not folder.exists()
    make_writable(folder)
    mark = folder / MARK
    entries = _foreign(folder)
    if (entries and not mark.exists()) or mark.is_symlink() or mark.is_dir():
        entries = [name if name.isprintable() else repr(name) for name in entries or [MARK]]
        more = f" and {len(entries) - NAMED} more" if len(entries) > NAMED else ""
        raise Refused(
            f"{folder} holds what was not written here: {', '.join(entries[:NAMED])}{more}. Give a folder that is new "
            f"or empty, or one of an earlier {kind}"
        )
    # One process at a time, of one kind, over files that nobody changed since.
    with mark.open("a+", encoding="utf-8", errors="replace") as file:
        _lock_at_once(file, f"another {kind} is writing into {folder}: wait for its end, or give another folder")
        file.seek(0)
        earlier = file.read().strip()
        if earlier not in ("", kind):
            raise Refused(
                f"{folder} holds results of another kind ({earlier[:40]!r}): give a folder that is new or "
                f"empty, or one of an earlier {kind}"
            )
        refuse_changed(folder, _digests(folder, files))
        try:
            file.write("" if earlier else f"{kind}\n")
            file.flush()
            yield folder
        finally:
            with suppress(OSError):  # of a full disk: the next claim raises for what is not listed, and nothing is lost
                if written := _digests(folder, files):
                    write_json(folder / WRITTEN, read_written(folder) | {name: [of] for name, of in written.items()})
            if not _foreign(folder):
                mark.unlink(missing_ok=True)
                if is_new:
                    with suppress(OSError):  # someone has put something there just now
                        folder.rmdir()


def _foreign(folder: Path) -> list[str]:
    """Return the names of everything in a folder but its mark."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name != MARK)


def _lock_at_once(file: IO, refusal: str) -> None:
    """Lock an open file until it is closed, or raise; without fcntl (Windows) there is no lock."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        still_there = os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except (BlockingIOError, FileNotFoundError):  # held, or removed by the one who held it
        still_there = False
    if not still_there:
        raise Refused(refusal)
