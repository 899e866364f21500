"""What a report or a census has measured so far, in files: an interrupted one goes on with the next text."""

import hashlib
import io
import json
from dataclasses import asdict, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from analysis.core.device import versions
from analysis.core.files import sha256, write_atomically
from analysis.reporting.observations import Observations

CODE = Path(__file__).parents[1]


def identity(model: dict, texts: list[list], settings: dict) -> str:
    """Name what is measured: the model's provenance, the tokens or sounds, the settings, and all code that computes.

    That is the package's and, by their versions, the libraries'.
    """
    code = [sha256(path) for path in sorted(CODE.rglob("*.py"))]
    return hashlib.sha256(json.dumps([model, texts, settings, code, versions()]).encode()).hexdigest()


class State:
    """Observations of the trained model and of each control, a file each, which end with the report."""

    def __init__(self, folder: Path, name: str):
        """Take the folder of the files, and the report's `identity`: files of another are not read."""
        self.folder, self.name = folder, name

    def _file(self, part: str) -> Path:
        return self.folder / f".unfinished-{self.name[:8]}-{part.replace(', ', '-').replace(' ', '-')}.npz"

    def save(self, part: str, observed: Observations) -> None:
        """Write one part; first under a temporary name, then renamed."""
        buffer = io.BytesIO()
        np.savez(buffer, identity=np.array(self.name), **asdict(observed))
        write_atomically(self._file(part), buffer.getvalue())

    def load(self, part: str) -> Observations | None:
        """Return one part, or nothing where there is none that belongs to this report."""
        try:
            with np.load(self._file(part), allow_pickle=False) as file:
                if str(file["identity"]) != self.name:
                    return None
                names = [field.name for field in fields(Observations) if field.name != "texts"]
                return Observations(int(file["texts"]), *(file[key] for key in names))
        except (OSError, KeyError, ValueError, BadZipFile):
            return None

    def remove(self) -> None:
        """Remove all parts of this report, and leave those of others."""
        for path in self.folder.glob(f".unfinished-{self.name[:8]}-*.npz"):
            path.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove all parts from a folder."""
    for path in folder.glob(".unfinished-*.npz"):
        path.unlink(missing_ok=True)
