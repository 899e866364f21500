"""Opening the files of a checkpoint: config.json, safetensors and their index, GGUF; refusals name the file.

What is read is what lies in the folder, which is what `Checkpoint.provenance` hashes.
"""

from pathlib import Path

import torch
from torch import Tensor

from analysis.core.files import check_regular, read_json_object, sha256
from analysis.models.checkpoints import Checkpoint, NotFound, Tampered
from analysis.models.gguf_files import GgufTensors, find_gguf, gguf_settings

FLOATING = ("F64", "F32", "F16", "BF16")
"""What safetensors may call the numbers of a tensor that is read."""
INDEX = "model.safetensors.index.json"
PARTIAL = "partial"
"""The entry of a config.json that says of a folder that it holds a part of its model by design."""
PARTS = frozenset({"540dcaad53c4bdb5beda57524513e22ecbba0c6643ce3643d552e38597330295"})
"""The sha256 of weights that are a part by design and whose config.json does not say so: GPT-2's without matrices of
MLPs and without tokens.

:meta hide-value:
"""


class MissingTensor(LookupError):
    """A model lacks a tensor; the message names it and where it was looked for."""


def raw_config(checkpoint: Checkpoint) -> dict:
    """Return what ``config.json`` holds, which must be a JSON object, or what a GGUF file says in its place."""
    if gguf := find_gguf(checkpoint.folder):
        return gguf_settings(gguf)
    path = checkpoint.folder / "config.json"
    try:
        return read_json_object(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from None


class TensorFiles:
    """The safetensors files of a checkpoint, or its GGUF file.

    A file is opened for each tensor that is asked for, and closed again (a GGUF file is mapped and stays open). The
    pages of a file that stays open stay in memory, so that reading layer by layer would end up with all of it.

    Attributes
    ----------
    headers
        Shape and dtype of every tensor, by name.

    Raises
    ------
    Tampered
        If a file is not a whole safetensors file.
    ValueError
        If a tensor is in two files, of which each reader might take another, or the index leads anywhere else
        (`check_index`).
    """

    def __init__(self, checkpoint: Checkpoint):
        """Open the files and read their headers."""
        gguf = find_gguf(checkpoint.folder)
        self._gguf = GgufTensors(gguf) if gguf else None
        self.headers: dict[str, tuple[tuple[int, ...], str]] = self._gguf.headers if self._gguf else {}
        self._files: dict[str, Path] = {}
        if self._gguf:
            return
        for path in checkpoint.files():
            file = _open(path)
            for name in file.keys():  # noqa: SIM118, it is not a dict
                if name in self._files:
                    raise ValueError(
                        f"tensor {name!r} is in {self._files[name].name} and in {path.name} of {path.parent}: which "
                        "is meant cannot be told, keep one of the files"
                    )
                part = file.get_slice(name)
                self.headers[name] = tuple(part.get_shape()), part.get_dtype()
                self._files[name] = path
        check_index(checkpoint.folder, {name: path.name for name, path in self._files.items()})

    def read(self, name: str, dtype: torch.dtype | None = None) -> Tensor:
        """Read one tensor, in the requested dtype; refuse what is not a floating number."""
        if self._gguf:
            return self._gguf.read(name).to(dtype)
        path = self._files[name]
        check_dtype(name, self.headers[name][1], path)
        return _open(path).get_tensor(name).to(dtype)


def _open(path: Path):
    """Open a safetensors file; refuse what is none or is cut off."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise Tampered(f"{path} is not a whole safetensors file: {error}") from None


def check_index(folder: Path, files: dict[str, str]) -> None:
    """Refuse an index that leads out of its folder, to another kind of file, or to a file without the tensor.

    The library follows an index wherever it points, and what lies there is neither looked at nor hashed here.

    Parameters
    ----------
    files
        The name of the file of each tensor that is there.

    Raises
    ------
    ValueError
        Naming the entry of the index.
    """
    index = folder / INDEX
    if not (index.exists() or index.is_symlink()):
        return
    try:
        entries = read_json_object(index).get("weight_map")
    except OSError as error:
        raise NotFound(f"{index} cannot be read: {error.strerror}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{index} must give weight_map as an object, got {type(entries).__name__}")
    for name, file in entries.items():
        if files.get(name) != file:
            there = f", which is in {files[name]!r}" if name in files else ""
            if isinstance(file, str) and Path(file).name == file and not (folder / file).exists():
                there = "; this one is missing: fetch it again"
            raise ValueError(
                f"{index} says that {name!r} is in {str(file)[:200]!r}: it may name safetensors files of its own "
                f"folder only, and each must hold its tensor{there}"
            )


def is_partial(checkpoint: Checkpoint) -> bool:
    """Return whether a folder holds part of its model by design: by its config.json or the digest of its weights."""
    return raw_config(checkpoint).get(PARTIAL) is True or any(sha256(path) in PARTS for path in checkpoint.files())


def check_dtype(name: str, dtype: str, where: object) -> None:
    """Refuse what safetensors calls anything but a floating number: such integers stand for others (quantization)."""
    if dtype not in FLOATING:
        raise ValueError(
            f"tensor {name!r} of {where} must be of one of {', '.join(FLOATING)}, got {dtype}: quantized "
            "models are not read here"
        )
