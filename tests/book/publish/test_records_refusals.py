"""Records: what cannot be recorded is named, and what is not finite agrees with its like alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.core.files import sha256
from book.publish import records
from book.publish.records import Disagrees, Experiment, Result, Value


def toy(last):
    return Experiment("a toy", lambda device: Result({}, {"table": np.array([1.0, last])}, {"table": 0.01}), name="toy")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Result({"mean": Value(float("nan"))}), "value of mean is nan"),
        (Result({"mean": Value(1.0, tolerance=float("inf"))}), "tolerance of mean is inf"),
        (Result({}, {"table": np.ones(2)}, {"table": float("nan")}), "tolerance of array table"),
        (Result({}, {"table": np.ones(2)}, {"tabel": 0.1}), "tolerance of array tabel"),
        (Result({}, {"table": np.array([None, "a"])}), "array table has dtype object"),
    ],
)
def test_what_a_record_cannot_hold_is_named(tmp_path, result, message):
    with pytest.raises(ValueError, match=message):
        records.write(Experiment("a toy", lambda device: result, name="toy"), torch.device("cpu"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_infinity_does_not_agree_with_minus_infinity_or_nan(tmp_path):
    records.write(toy(np.inf), torch.device("cpu"), tmp_path)
    record = records.load("toy", tmp_path)
    records.compare(toy(np.inf).compute(None), record)
    for other in (-np.inf, np.nan):
        with pytest.raises(Disagrees, match="array table is finite elsewhere"):
            records.compare(toy(other).compute(None), record)


def test_whole_numbers_do_for_tolerances_and_minutes(tmp_path):
    spec = Experiment("a toy", lambda device: Result({"steps": Value(400, tolerance=100)}), minutes=4, name="toy")
    records.write(spec, torch.device("cpu"), tmp_path)
    assert records.load("toy", tmp_path).values["steps"].tolerance == 100


class Bomb:
    """Something that writes a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.write_text, (self.mark, "ran")


def test_a_record_whose_arrays_are_pickles_is_refused_even_with_a_right_seal(tmp_path):
    mark = tmp_path / "mark"
    result = records.Result({"x": records.Value(1.0)}, {"a": np.zeros(3)})
    spec = records.Experiment("s", lambda _: result, name="r")
    path = records.write(spec, torch.device("cpu"), tmp_path)
    np.savez(tmp_path / "r.npz", a=np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    body = json.loads(path.read_text())
    body["arrays_sha256"] = sha256(tmp_path / "r.npz")
    body["sha256"] = records.seal(body)
    path.write_text(json.dumps(body))
    with pytest.raises(ValueError, match="pickle"):
        records.load("r", tmp_path)
    assert not mark.exists()
