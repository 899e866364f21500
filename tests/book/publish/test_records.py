"""Records: written whole, sealed, compared within their tolerance, and what a chapter gets."""

import json
import re

import numpy as np
import pytest
import torch

from analysis.models.checkpoints import NotFound
from book.publish import experiments, records
from book.publish.records import BadRecord, Disagrees, Experiment, Result, Value


def make(value=1.0, table=(1.0, 2.0), **kwargs):
    def compute(device):
        return Result(
            {"mean": Value(value, tolerance=0.1, n=3), "name": Value("a")},
            {"table": np.array(table), "counts": np.array([1, 2])},
            {"table": 0.01},
        )

    return Experiment(compute, "a toy", name="toy", **kwargs)


@pytest.fixture
def folder(tmp_path):
    records.write(make(), torch.device("cpu"), tmp_path)
    return tmp_path


def reseal(folder, change):
    """Change the toy's record, and seal it again as one would who hides the change."""
    body = json.loads((folder / "toy.json").read_text())
    change(body)
    body["sha256"] = records.seal(body)
    (folder / "toy.json").write_text(json.dumps(body))


def test_round_trip(folder):
    record = records.load("toy", folder)
    assert record["mean"] == 1.0
    assert record.values["mean"].n == 3
    np.testing.assert_array_equal(record.array("table"), [1.0, 2.0])
    assert record.provenance["command"] == ""
    assert [p.name for p in folder.iterdir()] == ["toy.json"]


def test_agrees_within_the_tolerance_and_not_beyond(folder):
    record = records.load("toy", folder)
    records.compare(make(1.09, (1.009, 2.0)).compute(None), record)
    with pytest.raises(Disagrees, match=r"mean is 1\.2, recorded 1\.0"):
        records.compare(make(1.2).compute(None), record)
    with pytest.raises(Disagrees, match=r"array table differs by 0\.02"):
        records.compare(make(table=(1.02, 2.0)).compute(None), record)
    with pytest.raises(Disagrees, match="finite elsewhere"):
        records.compare(make(table=(np.nan, 2.0)).compute(None), record)
    with pytest.raises(Disagrees, match="shape"):
        records.compare(make(table=(1.0,)).compute(None), record)
    with pytest.raises(Disagrees, match="only in the record"):
        records.compare(Result(), record)


def test_a_tolerance_has_no_room_beyond_itself():
    assert records._agree(1.0 + 2**-30, 1.0, 2.0**-30)
    assert not records._agree(1.0 + 2**-30, 1.0, 2.0**-31)
    assert not records._agree(1.0 + 2**-52, 1.0, 0.0)
    one, next_to_one = np.ones(2), np.array([1.0, 1.0 + 2**-30])
    assert not records._array_differs("table", next_to_one, one, 2.0**-30)
    assert records._array_differs("table", next_to_one, one, 2.0**-31)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"value": 1.0', '"value": 1.05'),
        lambda text: text.replace('"tolerance": 0.1', '"tolerance": 9'),
        lambda text: text.replace('"data": "eN', '"data": "eO'),
        lambda text: text[:-20],
    ],
)
def test_an_edited_record_is_refused(folder, edit):
    path = folder / "toy.json"
    path.write_text(edit(path.read_text()))
    with pytest.raises(BadRecord, match="record toy again"):
        records.load("toy", folder)


def test_a_missing_record_is_named(folder):
    with pytest.raises(BadRecord, match="there is no record"):
        records.load("other", folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.pop("values"),
        lambda body: body["arrays"]["table"].update(data="AAAA"),
        lambda body: body["arrays"]["table"].update(shape=[3]),
        lambda body: body["arrays"]["table"].update(dtype="object"),  # addresses of what was never made
    ],
)
def test_a_right_seal_makes_no_record(folder, change):
    reseal(folder, change)
    with pytest.raises(BadRecord, match="is no record"):
        records.load("toy", folder)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"null", b"[" * 100_000])
def test_what_is_no_json_is_no_record(folder, content):
    (folder / "toy.json").write_bytes(content)
    with pytest.raises(BadRecord, match="record toy again"):
        records.load("toy", folder)


def test_a_record_under_another_name_is_refused(folder):
    (folder / "toy.json").rename(folder / "other.json")
    with pytest.raises(BadRecord, match="is the record of 'toy'"):
        records.load("other", folder)
    (folder / "toy.json").mkdir()
    with pytest.raises(BadRecord, match="is not whole JSON"):
        records.load("toy", folder)


def test_missing_inputs_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    monkeypatch.setenv("ANALYSIS_DATA", str(tmp_path))
    spec = make(models=("bert",), data=("nowhere",))
    assert spec.missing() == ["model bert", "data nowhere"]  # a stand-in is not the model
    with pytest.raises(NotFound, match="needs model bert, data nowhere"):
        records.write(spec, torch.device("cpu"), tmp_path)


def test_unwritable_folder_is_refused_before_computing(tmp_path):
    (tmp_path / "file").write_text("")

    def never(device):
        pytest.fail("computed before the folder was checked")

    with pytest.raises(PermissionError, match="cannot write"):
        records.write(Experiment(never, name="toy"), torch.device("cpu"), tmp_path / "file")


def test_a_failing_experiment_leaves_nothing(tmp_path):
    def broken(device):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        records.write(Experiment(broken, name="toy"), torch.device("cpu"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def allow(body, mean, table):
    body["values"]["mean"]["tolerance"], body["arrays"]["table"]["tolerance"] = mean, table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: allow(body, 9.0, 0.01), r"mean is recorded with the tolerance 9, its experiment states 0\.01"),
        (lambda body: allow(body, 0.01, 0.02), r"array table is recorded with the tolerance 0\.02, .* states 0\.01"),
        (lambda body: body["values"]["mean"].update(low=0.5), "low of mean is 0.4, recorded 0.5"),
        (lambda body: body["values"]["mean"].update(high=None), "high of mean is 0.6, recorded None"),
        (lambda body: body["values"]["mean"].update(n=120), "n of mean is 100, recorded 120"),
        (lambda body: body["values"]["mean"].update(unit="parsecs"), "unit of mean is nats, recorded parsecs"),
    ],
)
def test_a_resealed_record_allows_no_more_and_says_nothing_else_than_its_experiment(tmp_path, change, message):
    def result(*about):
        return Result({"mean": Value(*about)}, {"table": np.ones(2)}, {"table": 0.01})

    own = result(0.5, 0.01, 0.4, 0.6, 100, "nats")
    records.write(Experiment(lambda device: own, "a toy", name="toy"), torch.device("cpu"), tmp_path)
    records.compare(result(0.505, 0.01, 0.385, 0.61, 104, "nats"), records.load("toy", tmp_path))
    reseal(tmp_path, change)
    with pytest.raises(Disagrees, match=message):
        records.compare(own, records.load("toy", tmp_path))


def test_a_tolerance_that_is_a_share_of_a_number_may_differ_with_it(folder):
    reseal(folder, lambda body: body["values"]["mean"].update(tolerance=0.12))
    records.compare(make().compute(None), records.load("toy", folder))


INPUTS = "toy says of its inputs what is not so"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body["provenance"].update(seed=1), INPUTS),
        (lambda body: body["provenance"].update(command="python -m book record other"), INPUTS),
        (lambda body: body["provenance"].update(data=["theirs"]), INPUTS),
        (lambda body: body["provenance"].update(models=[]), INPUTS),
        (lambda body: body["provenance"]["models"][0]["sha256"].update({"model.safetensors": "0" * 64}), INPUTS),
        (lambda body: body["provenance"]["models"][0]["sha256"].clear(), INPUTS),
        (lambda body: body["provenance"].update(models=[{"name": "gpt2"}]), INPUTS),
        (lambda body: body.update(summary="something larger"), "summary 'something larger', stated 'a toy'"),
        (lambda body: body["provenance"]["models"][0].update(licence="GPL"), "gpt2-mini the licence 'GPL'"),
        (lambda body: body["provenance"]["models"][0].pop("licence"), "gpt2-mini the licence None"),
        (lambda body: body["provenance"]["models"][0]["settings"].update({"config.json": "0"}), "gpt2-mini the sha256"),
    ],
)
def test_a_resealed_record_has_the_inputs_the_summary_and_the_licences_that_are_stated(tmp_path, change, message):
    spec = make(models=("gpt2-mini",))
    records.write(spec, torch.device("cpu"), tmp_path)
    records.check_provenance(spec, records.load("toy", tmp_path))
    reseal(tmp_path, change)
    with pytest.raises(BadRecord, match=message):
        records.check_provenance(spec, records.load("toy", tmp_path))


@pytest.mark.parametrize("name", experiments.modules())
def test_every_experiment_has_a_whole_record(name):
    if not (experiments.FOLDER / f"{name}.json").exists():
        assert experiments.find(name).needs_gpu  # what awaits one
        return
    records.check_provenance(experiments.find(name), experiments.load(name))


def test_every_record_has_its_experiment():
    assert {path.stem for path in experiments.FOLDER.glob("*.json")} <= set(experiments.modules())


def toy(last):
    return Experiment(lambda device: Result({}, {"table": np.array([1.0, last])}, {"table": 0.01}), "a toy", name="toy")


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
        records.write(Experiment(lambda device: result, "a toy", name="toy"), torch.device("cpu"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_infinity_does_not_agree_with_minus_infinity_or_nan(tmp_path):
    records.write(toy(np.inf), torch.device("cpu"), tmp_path)
    record = records.load("toy", tmp_path)
    records.compare(toy(np.inf).compute(None), record)
    for other in (-np.inf, np.nan):
        with pytest.raises(Disagrees, match="array table is finite elsewhere"):
            records.compare(toy(other).compute(None), record)


NAMES = sorted(path.stem for path in experiments.FOLDER.glob("variant-*.json"))
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


@pytest.mark.parametrize("name", NAMES)
def test_no_sequence_is_in_a_record(name):
    record = experiments.load(name)
    assert sequences_in(f"{record.values} {[*record.arrays]} {record.summary}", record.arrays) == []


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
