"""Records: results that are kept in files, each number with its tolerance, each file with its provenance and a seal.

An :class:`Experiment` computes a :class:`Result`; :func:`write` puts it into ``NAME.json`` of a folder, :func:`load`
reads it; :func:`compare` holds a new result to it. A record is never edited by hand.
"""

import base64
import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from analysis.core import device
from analysis.core.files import make_writable, write_atomically
from analysis.models import checkpoints

ROOM = 1.25
"""How much wider a record's tolerance may be than the one stated, which may be a share of a number."""


class Disagrees(AssertionError):
    """A recomputed result differs from its record beyond the tolerance; the message names every value that does."""


class BadRecord(ValueError):
    """A record file is missing, truncated or was edited; the message names the file and says what to run."""


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
    """What an experiment computed: numbers, arrays, and how far each array may differ (absolute, default 0).

    ``result["name"]`` is a value, ``result.array("name")`` an array.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    tolerances: Mapping[str, float | int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float | int | str | bool:
        return self.values[name].value

    def array(self, name: str) -> np.ndarray:
        """Return an array by name."""
        return self.arrays[name]


@dataclass(frozen=True, kw_only=True)
class Record(Result):
    """A result that was read, with what its file says of it."""

    name: str
    summary: str
    provenance: dict


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


@dataclass(frozen=True)
class Experiment:
    """Something worth recording: its inputs (models by name, data by folder name) and how to compute it.

    ``minutes`` is what it takes on two cores; ``command`` repeats it. The book's experiments leave ``name`` and
    ``command`` empty: the place of their module gives both. The summary is by default the first line of what
    ``compute`` says of itself.
    """

    compute: Callable[[torch.device], Result]
    summary: str = ""
    name: str = ""
    command: str = ""
    models: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    minutes: float | int = 0.1
    seed: int | None = None
    needs_gpu: bool = False

    def __post_init__(self):
        said = (self.compute.__doc__ or "").partition("\n")[0].removesuffix(".")
        object.__setattr__(self, "summary", self.summary or said)

    def missing(self) -> list[str]:
        """Name the inputs that are not on this machine; a stand-in does not count as the model it stands in for."""
        models = [name for name in self.models if not _has_model(name)]
        absent = [f"model {name}" for name in models[:3]]
        if more := len(models[3:]):
            absent.append(f"{more} more model{'s' if more > 1 else ''}")
        absent += [f"data {name}" for name in self.data if data_folder(name) is None]
        if self.needs_gpu and not torch.cuda.is_available():
            absent.append("a CUDA device")
        return absent


def _has_model(name: str) -> bool:
    try:
        checkpoints.find(name)
        return True
    except checkpoints.NotFound:
        return False


def data_folder(name: str) -> Path | None:
    """Return the folder ``name`` in the directories of ``ANALYSIS_DATA``, or ``None``."""
    for parent in filter(None, os.environ.get("ANALYSIS_DATA", "").split(os.pathsep)):
        if Path(parent, name).is_dir():
            return Path(parent, name).resolve()
    return None


def write(experiment: Experiment, where: torch.device | None, folder: Path) -> Path:
    """Compute an experiment and write ``NAME.json``, under a temporary name that is then changed."""
    if absent := experiment.missing():
        raise checkpoints.NotFound(f"{experiment.name} needs {', '.join(absent)}")
    make_writable(folder)
    where = where or device.choose()
    start = time.perf_counter()
    result = experiment.compute(where)
    seconds = time.perf_counter() - start
    _check_finite(experiment.name, result)
    body = {
        "experiment": experiment.name,
        "summary": experiment.summary,
        "values": {key: _sparse(asdict(value)) for key, value in result.values.items()},
        "arrays": {
            key: {"tolerance": result.tolerances.get(key, 0.0), **pack(np.asarray(array))}
            for key, array in result.arrays.items()
        },
        "provenance": {
            "models": [checkpoints.find(name).provenance() for name in experiment.models],
            "data": list(experiment.data),
            "seed": experiment.seed,
            **device.describe_run(where, seconds, experiment.command),
        },
    }
    body["sha256"] = seal(body)
    path = folder / f"{experiment.name}.json"
    write_atomically(path, (json.dumps(body, indent=1, allow_nan=False) + "\n").encode())
    return path


def pack(array: np.ndarray) -> dict[str, object]:
    """Return an array as JSON holds it: its shape, its dtype, and its entries compressed, in base64."""
    data = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": data}


def unpack(shape: list[int], dtype: str, data: str) -> np.ndarray:
    """Return the array that :func:`pack` was given.

    >>> unpack(**pack(np.array([[1.5], [2.0]])))
    array([[1.5],
           [2. ]])
    """
    entries = bytearray(zlib.decompress(base64.b64decode(data)))
    return np.frombuffer(entries, dtype).reshape(shape)


def load(name: str, folder: Path) -> Record:
    """Read a record and check its seal."""
    path = folder / f"{name}.json"
    again = f"record {name} again"
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadRecord(f"there is no record {path}; {again}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadRecord(f"{path} is not whole JSON ({error}); {again}") from None
    if not isinstance(body, dict) or body.get("sha256") != seal(body):
        raise BadRecord(f"{path} was changed after it was written; {again}")
    if body.get("experiment") != name:
        raise BadRecord(f"{path} is the record of {body.get('experiment')!r}; {again}")
    try:
        values = {k: Value(**v) for k, v in body["values"].items()}
        tolerances = {k: v.pop("tolerance") for k, v in body["arrays"].items()}
        arrays = {k: unpack(**v) for k, v in body["arrays"].items()}
        said = {"summary": body["summary"], "provenance": body["provenance"]}
        return Record(values, arrays, tolerances, name=name, **said)
    except (KeyError, TypeError, AttributeError, ValueError, zlib.error) as error:
        raise BadRecord(f"{path} has a right seal and is no record ({error!r}); {again}") from None


def check_provenance(experiment: Experiment, record: Record) -> None:
    """Hold a record's words to its experiment: the summary, and of the inputs also what is known of its models.

    Of a model the licence, where it is known by name, and the sha256 of its files, where they are pinned or here.
    """
    said, again = record.provenance, f"record {record.name} again"
    stated = {"data": list(experiment.data), "seed": experiment.seed, "command": experiment.command}
    wrong = [f"{key} {said.get(key)!r}, stated {value!r}" for key, value in stated.items() if said.get(key) != value]
    if record.summary != experiment.summary:
        wrong.append(f"summary {record.summary!r}, stated {experiment.summary!r}")
    models = {model.get("name"): model for model in said.get("models", ())}
    if [*models] != [*experiment.models]:
        wrong.append(f"models {[*models]}, stated {[*experiment.models]}")
    for name in set(models) & set(experiment.models):
        digests, weights = _digests_of(name), models[name].get("sha256", {})
        theirs = {*weights.values(), *({} if _pinned(name) else models[name].get("settings", {})).values()}
        if digests and not (weights and theirs <= digests):
            wrong.append(f"of model {name} the sha256 {sorted(theirs)}, its files have {sorted(digests)}")
        licence = models[name].get("licence")
        if name in checkpoints.KNOWN and licence != checkpoints.KNOWN[name].licence:
            wrong.append(f"of model {name} the licence {licence!r}, it is {checkpoints.KNOWN[name].licence!r}")
    if wrong:
        raise BadRecord(f"{record.name} says of its inputs what is not so: {'; '.join(wrong)}; {again}")


def _digests_of(name: str) -> set[str]:
    """Return the sha256 that a model's files may have: those pinned, else those of the files found here."""
    if pinned := _pinned(name):
        return pinned
    about = checkpoints.find(name).provenance() if _has_model(name) else {}
    return {digest for kind in ("sha256", "settings") for digest in about.get(kind, {}).values()}


def _pinned(name: str) -> set[str]:
    return set(checkpoints.KNOWN[name].sha256) if name in checkpoints.KNOWN else set()


def compare(result: Result, record: Record) -> None:
    """Hold a result to a record, and the record's tolerances to those that the result states."""
    wrong = [
        f"{kind} {name} is only in the {'record' if name in there else 'result'}"
        for kind, here, there in (("value", result.values, record.values), ("array", result.arrays, record.arrays))
        for name in sorted(set(here) ^ set(there))
    ]
    for name in result.values.keys() & record.values.keys():
        new, old = result.values[name].value, record.values[name].value
        wrong += _too_wide(name, record.values[name].tolerance, result.values[name].tolerance)
        if not _agree(new, old, record.values[name].tolerance):
            wrong.append(f"{name} is {new}, recorded {old} (tolerance {record.values[name].tolerance:g})")
        wrong += _described_otherwise(name, result.values[name], record.values[name])
    for name in result.arrays.keys() & record.arrays.keys():
        wrong += _too_wide(f"array {name}", record.tolerances[name], result.tolerances.get(name, 0.0))
        wrong += _array_differs(name, np.asarray(result.arrays[name]), record.arrays[name], record.tolerances[name])
    if wrong:
        raise Disagrees(f"{record.name}: " + "; ".join(sorted(wrong)))


def _too_wide(name: str, recorded: float, stated: float) -> list[str]:
    if recorded <= ROOM * stated:
        return []
    return [f"{name} is recorded with the tolerance {recorded:g}, its experiment states {stated:g}"]


def _described_otherwise(name: str, new: Value, old: Value) -> list[str]:
    """Say where two values that agree have other intervals, sample sizes or units.

    The ends of an interval move more than what lies between them, so they have twice the tolerance. A sample size may
    depend on what was counted as found, so it has a twentieth.
    """
    allowed = {"low": 2 * new.tolerance + 1e-9, "high": 2 * new.tolerance + 1e-9, "n": (old.n or 0) / 20}
    wrong = [] if new.unit == old.unit else ["unit"]
    for part, most in allowed.items():
        ours, theirs = getattr(new, part), getattr(old, part)
        if (ours is None) != (theirs is None) or (ours is not None and not _agree(ours, theirs, most)):
            wrong.append(part)
    return [f"{part} of {name} is {getattr(new, part)}, recorded {getattr(old, part)}" for part in wrong]


def _agree(new, old, tolerance: float) -> bool:
    if isinstance(old, str | bool) or isinstance(new, str | bool):
        return new == old
    return math.isclose(new, old, rel_tol=0, abs_tol=tolerance) or (math.isnan(new) and math.isnan(old))


def _array_differs(name: str, new: np.ndarray, old: np.ndarray, tolerance: float) -> list[str]:
    if new.shape != old.shape:
        return [f"array {name} has shape {new.shape}, recorded {old.shape}"]
    if old.dtype.kind not in "fc":
        return [] if np.array_equal(new, old) else [f"array {name} differs"]
    finite = np.isfinite(old)
    if not np.array_equal(np.isfinite(new), finite) or not np.array_equal(new[~finite], old[~finite], equal_nan=True):
        return [f"array {name} is finite elsewhere than recorded, or infinite otherwise"]
    gap = np.abs(new[finite] - old[finite]).max(initial=0)
    return [f"array {name} differs by {gap:.3g} (tolerance {tolerance:g})"] if gap > tolerance else []
