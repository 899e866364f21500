"""Opening the files of a checkpoint: config.json and safetensors, with refusals that name the file.

What belongs here: what every reader of files needs. What does not: what a tensor is called
(:mod:`analysis.models.families`, :mod:`analysis.models.configuration`).
"""

from pathlib import Path

import torch
from torch import Tensor

from analysis.core.checks import all_finite
from analysis.core.files import read_json_object
from analysis.models.checkpoints import Checkpoint, NotFound, Tampered

FLOATING = ("F64", "F32", "F16", "BF16")
"""What safetensors may call the numbers of a tensor that is read."""


class MissingTensor(LookupError):
    """A checkpoint lacks a tensor; the message names it and the files that were searched."""


def raw_config(checkpoint: Checkpoint) -> dict:
    """Return what ``config.json`` holds, which must be a JSON object."""
    path = checkpoint.folder / "config.json"
    try:
        return read_json_object(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from None


def open_file(path: Path):
    """Open a safetensors file; refuse what is none or is cut off."""
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise Tampered(f"{path} is not a whole safetensors file: {error}") from None


def tensor_files(checkpoint: Checkpoint) -> dict[str, Path]:
    """Return the file of every tensor; refuse a name in two files, of which each reader might take another."""
    files: dict[str, Path] = {}
    for path in checkpoint.files():
        with open_file(path) as file:
            names = list(file.keys())
        if twice := next((name for name in names if name in files), None):
            raise ValueError(
                f"tensor {twice!r} is in {files[twice].name} and in {path.name} of {path.parent}: which "
                "is meant cannot be told, keep one of the files"
            )
        files |= dict.fromkeys(names, path)
    return files


def read_tensor(path: Path, name: str, dtype: torch.dtype) -> Tensor:
    """Read one tensor of a file, in the dtype asked for.

    Raises
    ------
    Tampered
        If the file is not a whole safetensors file.
    ValueError
        If the tensor holds no floating numbers, or one that is not finite.
    """
    with open_file(path) as file:
        check_dtype(name, file.get_slice(name).get_dtype(), path)
        tensor = file.get_tensor(name).to(dtype)
    if not all_finite(tensor):
        raise ValueError(f"tensor {name!r} of {path} holds entries that are not finite")
    return tensor


def check_dtype(name: str, dtype: str, where: object) -> None:
    """Refuse what safetensors calls anything but a floating number: such integers stand for others (quantization)."""
    if dtype not in FLOATING:
        raise ValueError(
            f"tensor {name!r} of {where} must be of one of {', '.join(FLOATING)}, got {dtype}: quantized "
            "models are not read here"
        )
