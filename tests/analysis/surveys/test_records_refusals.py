"""Records: what cannot be recorded is named, and what is not finite agrees with its like alone."""

import numpy as np
import pytest
import torch

from analysis.surveys import records
from analysis.surveys.records import Disagrees, Experiment, Result, Value


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
