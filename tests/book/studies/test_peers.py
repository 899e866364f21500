"""What the comparison with peers computes is what its record holds, so that the two can be compared."""

import pytest

from book.publish import experiments, records
from book.studies.peers import packages


@pytest.fixture
def asked(monkeypatch):
    """Let no process run; note what would have been measured, and give a number for it."""
    noted, record = [], experiments.load("peers-packages")
    versions = {
        name.removeprefix("version/"): value.value
        for name, value in record.values.items()
        if name.startswith("version/")
    }

    def run(task, way, what, out):
        noted.append((task, way, what))
        if what == "memory":
            return {"megabytes": 1.0, "versions": versions}
        more = {"bytes": 1, "hosts": 0} if task == "viewer" else {"megabytes": 1.0} if task == "import" else {}
        return {"seconds": 1.0, "versions": versions} | more

    monkeypatch.setattr(packages, "measure_way", run)
    monkeypatch.setattr(packages, "_agreement", lambda *_: 0.0)
    return noted


def test_every_way_has_its_memory_measured(asked):
    found, _ = packages.measure()
    assert all("megabytes" in numbers for numbers in found.values())
    assert {task for task, _, what in asked if what == "memory"} == set(packages.TASKS) - {"import"}


@pytest.mark.usefixtures("asked")
def test_what_is_computed_is_what_the_record_holds():
    records.compare(packages.compute(None), experiments.load("peers-packages"))


def test_three_digits_are_kept_of_what_is_measured_and_all_of_what_is_counted():
    assert [packages._digits(value) for value in (1234567, 0.0123456, 98765.4)] == [1234567, 0.0123, 98800.0]
