"""How the peers are measured: the processes that are started, and how far their numbers may lie apart."""

from types import SimpleNamespace

import numpy as np
import pytest

from book.studies.peers import packages


def ran(monkeypatch, *, code=0, out="", err=""):
    """Let no process run; note the command and its settings."""
    noted = []
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "own")
    monkeypatch.setattr(
        packages.subprocess,
        "run",
        lambda command, **settings: (
            noted.append((command, settings)) or SimpleNamespace(returncode=code, stdout=out, stderr=err)
        ),
    )
    return noted


@pytest.mark.parametrize(("what", "threshold"), [("memory", "65536"), ("time", "own")])
def test_only_for_memory_are_blocks_given_back_at_once(monkeypatch, tmp_path, what, threshold):
    monkeypatch.setenv("ANALYSIS_PEERS", str(tmp_path / "peers"))
    noted = ran(monkeypatch, out='a warning\n{"seconds": 2.5}\n')
    assert packages.measure_way("maps", "none", what, tmp_path / "x.npy") == {"seconds": 2.5}
    (command, settings), *_ = noted
    assert command[0] == tmp_path / "peers" / "bin" / "python"
    assert command[-4:] == ["maps", "none", what, tmp_path / "x.npy"]
    assert command[2].is_file()
    assert settings["env"]["MALLOC_MMAP_THRESHOLD_"] == threshold
    assert settings["env"]["OMP_NUM_THREADS"] == "1"
    assert settings["env"]["HF_HUB_OFFLINE"] == "1"
    assert settings["env"]["PATH"]
    assert (settings["cwd"] / "book" / "studies").is_dir()


def test_a_process_that_fails_says_why(monkeypatch, tmp_path):
    ran(monkeypatch, code=3, err=" no such way ")
    with pytest.raises(RuntimeError, match=r"maps in the way of none failed: no such way$"):
        packages.measure_way("maps", "none", "time", tmp_path)


def test_the_environment_lies_beside_the_book_if_none_is_named(monkeypatch):
    monkeypatch.delenv("ANALYSIS_PEERS", raising=False)
    assert packages.python() == packages.ROOT / ".peers" / "bin" / "python"
    assert (packages.ROOT / "book" / "studies" / "peers").is_dir()


def test_an_environment_that_is_absent_is_missing_and_one_that_is_there_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("ANALYSIS_PEERS", str(tmp_path))
    assert packages.EXPERIMENT.missing() == ["the environment of the peers, which `make peers` makes"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert packages.EXPERIMENT.missing() == []


def test_ways_differ_by_a_share_of_our_largest_number(tmp_path):
    np.save(tmp_path / "maps-ours.npy", np.array([-200_000.0, 100, 7, 8]))
    np.save(tmp_path / "maps-transformers.npy", np.array([-200_000.0, 99, 8]))  # fewer rows
    assert packages._agreement("maps", "transformers", tmp_path) == pytest.approx(1 / 200_000)
    np.save(tmp_path / "maps-transformers.npy", np.array([-200_000.0, 70, 8]))
    with pytest.raises(AssertionError, match=r"maps: transformers differs from ours by 1\.5e-04"):
        packages._agreement("maps", "transformers", tmp_path)


def test_every_way_but_the_first_and_the_empty_one_is_held_to_ours(monkeypatch):
    asked, said, given = [], [], {}

    def measure_way(task, way, what, out):
        given[task, way] = out
        of_what = {"seconds": 2.0} if what == "time" else {"megabytes": 3.0}
        return of_what | {"versions": {"torch": f"{task} {way} {what}"}}

    monkeypatch.setattr(packages, "measure_way", measure_way)
    monkeypatch.setattr(packages, "_agreement", lambda task, way, folder: asked.append((task, way, folder)) or 0.5)
    found, versions = packages.measure(said.append)
    assert [(task, way) for task, way, _ in asked] == [
        ("spectra", "transformer_lens"),
        ("spectra", "torch"),
        ("semi_bias", "keys_first"),
        ("maps", "transformer_lens"),
        ("maps", "transformers"),
        ("lilliefors", "statsmodels"),
    ]
    assert found["maps", "transformers"] == {"seconds": 2, "megabytes": 3, "difference": 0.5}
    assert found["maps", "none"] == found["maps", "ours"] == {"seconds": 2, "megabytes": 3}
    assert found["import", "bertviz"] == {"seconds": 2}
    assert versions == {"torch": "import statsmodels time"}
    for task, way, folder in asked:
        assert given[task, way] == folder / f"{task}-{way}.npy"
    assert said[0] == "spectra    ours              seconds 2  megabytes 3"
    assert len(said) == len(found)


def test_what_is_recorded_has_a_unit_and_a_tolerance(monkeypatch):
    numbers = {"seconds": 1.23456, "megabytes": 2.0, "bytes": 1234567, "difference": 1e-7}
    monkeypatch.setattr(packages, "measure", lambda: ({("maps", "none"): numbers}, {"torch": "2"}))
    values = packages.compute(None).values
    assert {name: (each.value, each.unit) for name, each in values.items()} == {
        "maps/none/seconds": (1.23, "s"),
        "maps/none/megabytes": (2, "MB"),
        "maps/none/bytes": (1234567, "B"),
        "maps/none/difference": (1e-7, ""),
        "version/torch": ("2", ""),
    }
    assert values["maps/none/difference"].tolerance == 1e-4
    assert values["maps/none/seconds"].tolerance == 1e12
