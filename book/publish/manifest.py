"""The manifest: the sha256 of what no page computes, so that a change of any of it is seen in version control.

It names every file that is bundled with the package (models, texts), every record, and the claims. A record's seal and
a model's sums can be written again by anyone who changes them; ``book/manifest.json`` then differs. The command
``python -m book record --manifest`` writes it anew, also after a merge: read the difference before it is committed.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from analysis.core.files import lock, sha256, write_json
from book.publish.execution import ROOT

NAME = "book/manifest.json"
REMEDY = "python -m book record --manifest"
COVERED = ("analysis/bundled/**/*", "book/records/*", "book/claims.yml")


def compute(root: Path = ROOT) -> dict[str, str]:
    """Return path and sha256 of every covered file, in the order of the paths."""
    files = {path for pattern in COVERED for path in root.glob(pattern) if path.is_file()}
    files = {path for path in files if not path.name.startswith(".") and path.parent.name != "__pycache__"}
    return {path.relative_to(root).as_posix(): sha256(path) for path in sorted(files)}


def read(root: Path = ROOT) -> dict[str, str]:
    """Read the manifest.

    Raises
    ------
    ValueError
        If it is missing, or is no table of paths and digests, say because a merge left both sides in it.
    """
    path = root / NAME
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is missing or not whole ({error}); write it anew: {REMEDY}") from None
    if not isinstance(table, dict) or not all(isinstance(digest, str) for digest in table.values()):
        raise ValueError(f"{path} is no table of paths and digests; write it anew: {REMEDY}")
    return table


def write(root: Path = ROOT) -> list[str]:
    """Write the manifest of what is here, and return the paths whose entries are other than they were."""
    try:
        before = read(root)
    except ValueError:
        before = {}
    now = compute(root)
    write_json(root / NAME, now)
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def enter(names: Iterable[str], root: Path = ROOT) -> None:
    """Enter the records of these names, which were written just now; what else differs stays as it is, to be seen."""
    with lock(root / "book" / "records"):
        table = read(root)
        for path in [f"book/records/{name}.{ending}" for name in names for ending in ("json", "npz")]:
            table.pop(path, None)
            if (root / path).exists():
                table[path] = sha256(root / path)
        write_json(root / NAME, dict(sorted(table.items())))


def differences(root: Path = ROOT, only: Iterable[str] = ()) -> list[str]:
    """Say of each file that is not as the manifest has it what is the matter; ``only`` looks at these records alone."""
    wanted, here = read(root), compute(root)
    paths = sorted(wanted.keys() | here.keys())
    if names := set(only):
        paths = [path for path in paths if path.startswith("book/records/") and Path(path).stem in names]
    return [
        f"{path} {_matter(wanted.get(path), here.get(path))}" for path in paths if wanted.get(path) != here.get(path)
    ]


def _matter(wanted: str | None, here: str | None) -> str:
    if here is None:
        return "is in the manifest and not here"
    return "is here and not in the manifest" if wanted is None else "is not the file that the manifest names"
