"""What a chapter costs: measured, kept whole, and never estimated."""

import os

import pytest

from analysis.core.files import write_json
from book.publish import costs, execution, kernels


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Keep costs in a temporary folder, for a book of two chapters."""
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    monkeypatch.setattr(costs, "FILE", tmp_path / "book" / "costs.json")
    monkeypatch.setattr(execution, "BUILD", tmp_path / "build")
    (tmp_path / "book").mkdir()
    for name in ("one", "two"):
        (tmp_path / "book" / f"{name}.md").write_text("#")
    return tmp_path


def test_a_process_is_measured_and_one_that_is_gone_is_not():
    found = costs.of_process(os.getpid())
    assert found["cpu_seconds"] > 0
    assert found["peak_mib"] > 50
    assert found["seconds"] > 0
    assert costs.of_process(2**22 + 1) is None


@pytest.mark.parametrize("gpu", [None, "Some GPU"])
def test_a_kernel_is_asked_where_it_computed(gpu):
    manager = kernels.KernelManager()
    manager.start_kernel(env=os.environ | {"PYTHONPATH": str(execution.ROOT)})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        if gpu:  # a GPU that holds 3 MiB, as far as analysis.core.device can tell
            client.execute_interactive(
                "from analysis.core import device as d; from book.publish import inputs\n"
                "d.describe = lambda _: 'Some GPU'; d.peak_memory = lambda _: 3 * 2**20"
            )
        cost = costs.of_kernel(client, manager.provisioner.pid)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (cost["device"], cost.get("gpu_mib")) == ((gpu, 3) if gpu else ("cpu", None))
    assert cost["peak_mib"] > 30


def test_costs_are_kept_until_measured_anew_and_forgotten_with_their_chapter(book):
    one = {"seconds": 3, "cpu_seconds": 2, "peak_mib": 100, "device": "cpu"}
    write_json(costs.path("one"), one)
    write_json(costs.path("gone"), one)
    costs.record()
    costs.path("one").unlink()
    write_json(costs.path("two"), {"seconds": 5, "cpu_seconds": 4, "peak_mib": 200, "device": "cpu"})
    assert costs.record() == ["gone", "two"]
    assert {n: c["cpu_seconds"] for n, c in costs.read()["cpu"]["chapters"].items()} == {"one": 2, "two": 4}
    assert "gpu" not in costs.read()
    costs.path("gone").unlink()
    write_json(costs.path("two"), one | {"device": "Some GPU", "gpu_mib": 70})
    assert costs.record() == ["two"]
    assert costs.read()["gpu"]["machine"].startswith("Some GPU")
    assert costs.read()["gpu"]["chapters"] == {"two": {"seconds": 3, "cpu_seconds": 2, "peak_mib": 100, "gpu_mib": 70}}
    assert costs.read()["cpu"]["chapters"]["two"]["cpu_seconds"] == 4
    assert f"{os.cpu_count()} cores" in costs.read()["cpu"]["machine"]


def test_a_run_on_a_gpu_leaves_the_processors_column_as_it_is(book):
    cost = {"seconds": 3, "cpu_seconds": 2, "peak_mib": 100, "device": "cpu"}
    write_json(costs.path("one"), cost)
    costs.record()
    before = costs.read()["cpu"]
    write_json(costs.path("one"), cost | {"cpu_seconds": 9})  # it computes nothing on the GPU
    write_json(costs.path("two"), cost | {"device": "Some GPU", "gpu_mib": 70})
    assert costs.record() == ["one", "two"]
    assert costs.read()["cpu"] == before
    assert list(costs.read()["gpu"]["chapters"]) == ["two"]


@pytest.mark.parametrize("text", ["{", '{"cpu": {}}', '{"cpu": {"chapters": {"one": {"cpu_seconds": -1}}}}', "[]"])
def test_a_truncated_or_tampered_file_is_refused(book, text):
    costs.FILE.write_text(text)
    with pytest.raises(ValueError, match="no whole file of costs"):
        costs.read()


def test_chapters_come_in_the_order_of_the_book():
    names = costs.chapters()
    assert names.index("notation") < names.index("evidence/semi-bias") < names.index("evidence/bert-gates")
    assert "glossary" not in names


def test_no_cost_is_kept_of_a_chapter_that_is_gone():
    kinds = costs.read()
    assert kinds, "run: make costs"
    for kind in kinds.values():
        assert set(execution.pages()) >= set(kind["chapters"])


def test_what_is_shown_is_of_the_stored_runs_and_else_of_the_file(book):
    one = {"seconds": 3, "cpu_seconds": 2, "peak_mib": 100, "device": "cpu"}
    for name in ("one", "two"):
        write_json(costs.path(name), one)
    costs.record()
    costs.path("two").unlink()
    write_json(costs.path("one"), one | {"cpu_seconds": 7})
    assert {n: c["cpu_seconds"] for n, c in costs.present()["cpu"]["chapters"].items()} == {"one": 7, "two": 2}
    assert {c["cpu_seconds"] for c in costs.read()["cpu"]["chapters"].values()} == {2}
    write_json(costs.path("one"), one | {"device": "Some GPU", "gpu_mib": 70})
    assert {n: c["gpu_mib"] for n, c in costs.present()["gpu"]["chapters"].items()} == {"one": 70}
    assert costs.present()["cpu"]["chapters"]["one"]["cpu_seconds"] == 2
