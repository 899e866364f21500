"""The records of the case study hold numbers, and nothing of the sequences that they were counted on."""

import json
import re

import numpy as np
import pytest

from book.publish.experiments import FOLDER

NAMES = sorted(path.stem for path in FOLDER.glob("variant-*.json"))
BASES = np.frombuffer(b"ACGTN-acgtn", np.uint8)


def sequences_in(text: str, arrays: dict[str, np.ndarray]) -> list[str]:
    """Return what looks like a stretch of bases: nine letters in the text, words or codes of letters in an array."""
    found = re.findall("[ACGTNacgtn-]{9,}", text)
    for name, array in arrays.items():
        if array.dtype.kind in "US":
            found += [word for word in array.astype(str).ravel() if re.fullmatch("[ACGTN-]+", word)]
        elif array.size >= 9 and np.isin(array, BASES).all():
            found.append(name)
    return found


def test_the_records_of_the_case_study_are_among_them():
    assert {
        "variant-measures",
        "variant-seeds",
        "variant-classifier-controls",
        "variant-data-real",
        "variant-baselines",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_sequence_is_in_a_record(name):
    body = json.loads((FOLDER / f"{name}.json").read_text())
    text = json.dumps({key: body[key] for key in ("values", "arrays", "summary")})
    assert bool(body["arrays"]) == (FOLDER / f"{name}.npz").exists()
    if not body["arrays"]:
        assert not sequences_in(text, {})
        return
    with np.load(FOLDER / f"{name}.npz") as arrays:
        assert sequences_in(text, dict(arrays)) == []


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ('{"word": "ACGTACGTACGT"}', {}),
        ("", {"names": np.array(["Alpha", "ACG-TT"])}),
        ("", {"coded": np.frombuffer(b"ACGTACGTAC", np.uint8)}),
        ("", {"coded": np.array([[65.0, 67.0, 71.0], [84.0] * 3, [78.0] * 3])}),
    ],
)
def test_a_sequence_would_be_found(text, arrays):
    assert sequences_in(text, arrays)
