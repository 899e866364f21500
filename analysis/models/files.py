"""Opening the files of a checkpoint: config.json and safetensors, with refusals that name the file.

What belongs here: what every reader of files needs. What does not: what a tensor is called
(:mod:`analysis.models.families`, :mod:`analysis.models.configuration`).
"""

import json
from pathlib import Path

from analysis.models.checkpoints import Checkpoint, NotFound, Tampered


class MissingTensor(LookupError):
    """A checkpoint lacks a tensor; the message names it and the files that were searched."""


def raw_config(checkpoint: Checkpoint) -> dict:
    """Return what ``config.json`` holds, which must be a JSON object."""
    path = checkpoint.folder / "config.json"
    try:
        settings = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(settings).__name__}")
    return settings


def open_file(path: Path):
    """Open a safetensors file; refuse what is none or is cut off."""
    from safetensors import SafetensorError, safe_open
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise Tampered(f"{path} is not a whole safetensors file: {error}") from None
