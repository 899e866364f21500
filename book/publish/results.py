"""A result and the files that it is written into: numbers with tolerances, arrays, where they are from, and a seal."""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from analysis.core.files import lock, write_atomically


@dataclass(frozen=True)
class Value:
    """One number of a result: ``tolerance`` is absolute, ``low`` and ``high`` bound it, ``n`` is its sample size."""

    value: float | int | str | bool
    tolerance: float | int = 0.0
    low: float | int | None = None
    high: float | int | None = None
    n: int | None = None
    unit: str = ""


@dataclass(frozen=True)
class Result:
    """What an experiment computed: numbers, arrays, and how far each array may differ (absolute, default 0)."""

    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    tolerances: Mapping[str, float | int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float | int | str | bool:
        return self.values[name].value

    def array(self, name: str) -> np.ndarray:
        """Return an array by name, as a record does."""
        return self.arrays[name]


def write(name: str, summary: str, result: Result, provenance: Mapping[str, object], folder: Path) -> Path:
    """Write a result to ``NAME.json`` and its arrays to ``NAME.npz``: first under temporary names, then renamed.

    Raises
    ------
    ValueError
        If a number is not finite, a tolerance belongs to no array, or an array would be pickled.
    """
    _check_finite(name, result)
    packed = _pack(result.arrays)
    body = {
        "experiment": name,
        "summary": summary,
        "values": {key: _sparse(asdict(value)) for key, value in result.values.items()},
        "arrays": {
            key: {"shape": list(a.shape), "dtype": str(a.dtype), "tolerance": result.tolerances.get(key, 0.0)}
            for key, a in result.arrays.items()
        },
        "arrays_sha256": hashlib.sha256(packed).hexdigest() if result.arrays else None,
        "provenance": dict(provenance),
    }
    body["sha256"] = seal(body)
    path = folder / f"{name}.json"
    with lock(folder):  # of two who write the same record, the arrays of one must not stand beside the other's values
        if result.arrays:
            write_atomically(path.with_suffix(".npz"), packed)
        write_atomically(path, (json.dumps(body, indent=1, allow_nan=False) + "\n").encode())
    return path


def _check_finite(name: str, result: Result) -> None:
    for key, value in result.values.items():
        for part, number in asdict(value).items():
            if isinstance(number, float) and not math.isfinite(number):
                raise ValueError(f"{name}: the {part} of {key} is {number}, which a record cannot hold")
    for key, tolerance in result.tolerances.items():
        if key not in result.arrays or not 0 <= tolerance < math.inf:
            raise ValueError(
                f"{name}: the tolerance of array {key} must be finite and belong to an array of "
                f"{sorted(result.arrays)}, got {tolerance}"
            )
    for key, array in result.arrays.items():
        if np.asarray(array).dtype.kind not in "biufcUS":
            raise ValueError(f"{name}: array {key} has dtype {np.asarray(array).dtype}, which would be pickled")


def _sparse(value: dict) -> dict:
    kept = {k: v for k, v in value.items() if v not in (None, "") and not (k == "tolerance" and v == 0.0)}
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in kept.items()}


def seal(body: dict) -> str:
    """Digest what is written without its own seal, so that an edit by hand is noticed."""
    return hashlib.sha256(
        json.dumps({k: v for k, v in body.items() if k != "sha256"}, sort_keys=True).encode()
    ).hexdigest()


def _pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.asarray(a) for name, a in arrays.items()})
    return buffer.getvalue()
