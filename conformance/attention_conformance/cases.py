"""The models of the suite and their golden values, read from files with numpy alone."""

import functools
import json
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

MODELS = Path(__file__).with_name("models.zip")
"""A folder a model; ``models.json`` beside it lists their layers."""
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


@functools.cache
def _unpacked() -> tempfile.TemporaryDirectory:
    """Make the folder that models are unpacked into; it goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="attention-conformance-")


@functools.cache
def unpack(model: str) -> Path:
    """Unpack a model, once in a process; return its folder."""
    with zipfile.ZipFile(MODELS) as archive:
        archive.extractall(_unpacked().name, [name for name in archive.namelist() if name.startswith(f"{model}/")])
    return Path(_unpacked().name, model)


class NotOffered(Exception):
    """An adapter raises this, with the reason, where its library does not take a model."""


@functools.cache
def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file: eight bytes of length, a header in JSON, then the numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    found = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, last = (start + offset for offset in about["data_offsets"])
            found[name] = np.frombuffer(data[first:last], DTYPES[about["dtype"]]).reshape(about["shape"])
    return found


@dataclass(frozen=True)
class Case:
    """One attention layer of one model.

    Attributes
    ----------
    model
        Its name, such as ``"gpt2"``.
    key
        The layer within it: ``"layers.0"``, or ``"encoder.0"`` where there are two stacks.
    auto
        The class of transformers with which the model was made, such as ``"AutoModelForCausalLM"``.
    stack, layer
        ``"encoder"``, ``"decoder"`` or ``""``; the number, counted from 0.
    first, out
        Paths of two modules in that class: the map that makes queries (or all three), and the output map.
    scale
        What products of queries and keys are multiplied by; golden queries are not.
    rounded
        Whether the model's own definition rounds to float32 inside.
    up_to_row
        Whether scores count up to a constant along each row: ALiBi, and sinks.
    """

    model: str
    key: str
    auto: str
    stack: str
    layer: int
    first: str
    out: str
    scale: float
    rounded: bool
    up_to_row: bool

    @property
    def folder(self) -> Path:
        """The folder that ``config.json`` and ``model.safetensors`` are unpacked into."""
        return unpack(self.model)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """What the model is given: one text, image or sound, in float64."""
        found = read_safetensors(self.folder / "golden.safetensors")
        return {name[7:]: torch.tensor(value) for name, value in found.items() if name.startswith("inputs.")}

    @property
    def golden(self) -> dict[str, np.ndarray]:
        """The golden values by name."""
        found, start = read_safetensors(self.folder / "golden.safetensors"), f"{self.key}."
        return {name.removeprefix(start): value for name, value in found.items() if name.startswith(start)}

    @property
    def x(self) -> torch.Tensor:
        """The rows ``(position, model)`` that the layer reads, for libraries that take rows and no models."""
        return torch.tensor(self.golden["x"])

    @property
    def position_rows(self) -> torch.Tensor | None:
        """The rows of the table of positions that the text uses, where the model adds them before this layer."""
        rows = self.golden.get("position_rows")
        return None if rows is None else torch.tensor(rows)

    def __str__(self) -> str:
        return f"{self.model}-{self.key}"


def cases(*models: str) -> list[Case]:
    """List the layers of all models, or of those that are named."""
    index = json.loads(MODELS.with_suffix(".json").read_text(encoding="utf-8"))["models"]
    return [
        Case(name, key, entry["class"], **about, rounded=entry["rounded"], up_to_row=entry["up_to_row"])
        for name, entry in index.items()
        if not models or name in models
        for key, about in entry["layers"].items()
    ]
