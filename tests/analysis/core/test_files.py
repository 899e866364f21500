"""Files: a folder that results go into is ours, or it is left alone; and one process writes into it at a time."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from analysis.core import files
from analysis.core.files import MARK, Refused, claim_folder, write_atomically, write_json, write_together

HOLD = (
    "import sys; from analysis.core.files import claim_folder\n"
    "with claim_folder(sys.argv[1], 'run'): print('held', flush=True); sys.stdin.read()"
)
ROOT = Path(__file__).parents[3]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_new_and_an_empty_folder_are_marked_and_can_be_claimed_again(tmp_path):
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        for content in ("first", "second"):
            with claim_folder(folder, "run"):
                (folder / "result").write_text(content)
        assert contents(folder) == {MARK: "run\n", "result": "second"}


def test_what_was_not_written_here_stays_and_is_named(tmp_path):
    for name in ("index.html", "about.html", "images", "style.css", ".htaccess"):
        (tmp_path / name).write_text(name)
    before = contents(tmp_path)
    with (
        pytest.raises(Refused, match=r"not written here: \.htaccess, about\.html, images and 2 more\. Give"),
        claim_folder(tmp_path, "run"),
    ):
        pytest.fail("was claimed")
    assert contents(tmp_path) == before


def test_files_of_an_earlier_run_are_replaced_as_it_wrote_them_and_not_otherwise(tmp_path):
    folder, names = tmp_path / "results", ("a.txt", "b.txt")
    for content in ("first", "second"):
        with claim_folder(folder, "run", names):
            (folder / "a.txt").write_text(content)
    for name, content in (("a.txt", "changed by hand"), ("b.txt", "of somebody")):
        before = (folder / name).read_text() if (folder / name).exists() else None
        (folder / name).write_text(content)
        refused = pytest.raises(Refused, match=rf"{name} was not written by an earlier run, or was changed since")
        with refused, claim_folder(folder, "run", names):
            pytest.fail("was claimed")
        assert (folder / name).read_text() == content
        (folder / name).write_text(before) if before else (folder / name).unlink()
    with claim_folder(folder, "run", names):
        pass


def test_what_a_run_wrote_before_it_failed_can_be_replaced(tmp_path):
    folder = tmp_path / "results"
    with suppress(KeyboardInterrupt), claim_folder(folder, "run", ["a.txt"]):
        (folder / "a.txt").write_text("first")
        raise KeyboardInterrupt
    with claim_folder(folder, "run", ["a.txt"]):
        (folder / "a.txt").write_text("second")
    assert sorted(contents(folder)) == [MARK, files.WRITTEN, "a.txt"]


def test_a_link_to_a_file_is_not_taken_for_it(tmp_path):
    folder = tmp_path / "results"
    with claim_folder(folder, "run", ["a.txt"]):
        (folder / "a.txt").write_text("first")
    (folder / "a.txt").rename(tmp_path / "elsewhere")
    (folder / "a.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=r"a\.txt was not written"), claim_folder(folder, "run", ["a.txt"]):
        pytest.fail("was claimed")


@pytest.mark.parametrize("kind", ["link", "link to nothing", "folder"])
def test_a_mark_that_is_no_plain_file_is_foreign(tmp_path, kind):
    (tmp_path / "secret").write_text("run\n")
    out = tmp_path / "out"
    out.mkdir()
    if kind == "folder":
        (out / MARK).mkdir()
    else:
        (out / MARK).symlink_to(tmp_path / ("secret" if kind == "link" else "nothing"))
    with pytest.raises(Refused, match=f"not written here: {MARK}"), claim_folder(out, "run"):
        pytest.fail("was claimed")
    assert not (tmp_path / "nothing").exists()


def test_results_of_another_kind_are_refused(tmp_path):
    with claim_folder(tmp_path, "training"):
        (tmp_path / "model").touch()
    with pytest.raises(Refused, match=r"another kind \('training'\)"), claim_folder(tmp_path, "run"):
        pytest.fail("was claimed")


@pytest.mark.parametrize("existed", [True, False])
def test_a_folder_that_got_nothing_is_left_as_it_was(tmp_path, existed):
    folder = tmp_path / "results"
    if existed:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt), claim_folder(folder, "run"):
        raise KeyboardInterrupt
    assert folder.exists() == existed
    assert not existed or contents(folder) == {}


def test_a_second_writer_is_refused_while_the_first_one_holds_the_folder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(Refused, match="another run is writing into"), claim_folder(tmp_path, "run"):
            pytest.fail("was claimed")
        first.communicate("")
    with claim_folder(tmp_path, "run"):
        pass


def test_what_is_written_together_is_all_there_or_nothing(tmp_path):
    def half(folder):
        (folder / "a").write_text("new")
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="No space"), write_together(tmp_path) as part:
        half(part)
    assert contents(tmp_path) == {"a": "old"}
    with write_together(tmp_path) as part:
        for name in "ab":
            (part / name).write_text("new")
    assert contents(tmp_path) == {"a": "new", "b": "new"}


@pytest.mark.parametrize("folder", ["x/" * 3000, ".git/x", "x" * 300])
def test_a_folder_that_cannot_be_made_is_refused_and_not_claimed(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"cannot write to|File name too long"), claim_folder(folder, "run"):
        pass
    assert not list(tmp_path.iterdir())


def test_files_of_one_writing_are_readable_by_all_and_json_is_indented_text(tmp_path):
    with write_together(tmp_path) as part:
        assert part.parent == tmp_path
        assert part.name.startswith(".part-")
        write_atomically(part / "a.txt", "one line")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644
    write_json(tmp_path / "deep" / "er" / "b.json", {"größe": [1, 2]})
    assert (tmp_path / "deep" / "er" / "b.json").read_text("utf-8") == '{\n "größe": [\n  1,\n  2\n ]\n}\n'
    assert files.read_json_object(tmp_path / "deep" / "er" / "b.json") == {"größe": [1, 2]}


def test_a_lock_makes_its_file_and_leaves_a_folder(tmp_path):
    with files.lock(tmp_path / "new" / "deep" / "lock"):
        assert (tmp_path / "new" / "deep" / "lock").is_file()
    with files.lock(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["new"]
