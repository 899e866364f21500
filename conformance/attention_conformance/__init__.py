"""Tiny random models with known attention: what a library says of them is exact, off by so much, or not offered.

Each case is a model's folder, as its publishers' files lie in one, with what was computed from it in float64 by plain
formulas and found equal to the reference implementation. README.md says what each quantity is.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

CASES = Path(__file__).parent / "cases"
QUANTITIES = (
    "queries",
    "keys",
    "scores",
    "content",
    "semi-bias",
    "query side",
    "kernel",
    "position bias",
    "attention",
    "output",
    "value bias folded",
    "norm folded into W_Q",
    "norm folded into b_Q",
    "semi-bias of positions",
)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
"""The largest relative error that counts as exact: float64's rounding, or float32's where a library computes in it."""
KINDS = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "BOOL": "?"}


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors: eight bytes with the length of a header, the header as JSON, and the numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = (start + offset for offset in entry["data_offsets"])
            numbers = np.frombuffer(data[first:last], KINDS[entry["dtype"]]).reshape(entry["shape"])
            found[name] = torch.from_numpy(numbers.copy())
    return found


@dataclass(frozen=True)
class Case:
    """One model: ``folder`` has its ``config.json`` and ``model.safetensors``."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @cached_property
    def about(self) -> dict:
        """``model_type``; ``stack``, the attribute of the model that holds its layers, or empty; and for each layer the
        paths of its attention module and of the map that writes its output."""
        return json.loads((self.folder / "case.json").read_text(encoding="utf-8"))

    @cached_property
    def golden(self) -> dict[str, Tensor]:
        """Everything that is known: ``inputs.NAME``, and ``LAYER.QUANTITY``."""
        return read_safetensors(self.folder / "golden.safetensors")

    @property
    def inputs(self) -> dict[str, Tensor]:
        """What the model is called with, a batch of one text; numbers in float64."""
        return self._below("inputs")

    def layer(self, number: int) -> dict[str, Tensor]:
        """What is known of a layer; beside the quantities, ``rows`` is what its attention reads and ``visible`` which
        keys each query sees."""
        return self._below(str(number))

    def _below(self, prefix: str) -> dict[str, Tensor]:
        start = f"{prefix}."
        return {name.removeprefix(start): value for name, value in self.golden.items() if name.startswith(start)}


class NotOffered(Exception):
    """A library does not take the model; the message says why."""


class Adapter(Protocol):
    """What stands between the suite and a library."""

    library: str
    version: str
    dtype: torch.dtype
    """What it computes in at its least precise: float32 where a softmax is, whatever the dtype of the model."""
    notes: dict[str, str]
    """What the library documents of a quantity that differs, such as a bias that it folds."""

    def layers(self, case: Case) -> list[dict[str, Tensor]]:
        """Return for each layer the quantities that the library offers, without a batch; or raise `NotOffered`."""


def cases() -> list[Case]:
    """Return all cases, by name."""
    return [Case(path.parent) for path in sorted(CASES.glob("*/case.json"))]


def error(found: Tensor, due: Tensor) -> float:
    """Return the largest difference, relative to the largest entry that is due; infinite for another shape or NaN."""
    if found.shape != due.shape:
        return math.inf
    found, due = found.detach().double().cpu(), due.double()
    off = float((found - due).abs().max() / due.abs().max().clamp_min(1e-300))
    return math.inf if math.isnan(off) else off


def centred(scores: Tensor, visible: Tensor) -> Tensor:
    """Return scores less the mean of each row, over the keys that it sees: a softmax does not see the mean."""
    seen = torch.where(visible, scores.double(), 0.0)
    return torch.where(visible, seen - seen.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True), 0.0)


def compare(found: dict[str, Tensor], known: dict[str, Tensor]) -> dict[str, float]:
    """Return the error of each quantity that is offered and known."""
    if unknown := found.keys() - set(QUANTITIES):
        raise ValueError(f"an adapter may offer {', '.join(QUANTITIES)}; got {', '.join(sorted(unknown))}")
    errors = {}
    for name in found.keys() & known.keys():
        offered, due = found[name], known[name]
        if name in ("scores", "position bias") and offered.shape == due.shape:
            offered, due = (centred(scores.cpu(), known["visible"]) for scores in (offered, due))
        if name == "norm folded into W_Q" and due.mean(1).abs().max() < 1e-12:  # a LayerNorm's, see README.md
            offered = offered - offered.mean(1, keepdim=True)
        errors[name] = error(offered, due)
    return errors
