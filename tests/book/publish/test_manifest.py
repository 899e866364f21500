"""The manifest: whatever is bundled, recorded or claimed cannot change without a line of it changing too."""

import json

import pytest

from book.publish import manifest

FILES = {
    "analysis/bundled/a/model.safetensors": "weights",
    "analysis/bundled/a/SHA256SUMS": "sums",
    "analysis/bundled/texts/passages.jsonl": "{}",
    "book/records/toy.json": "{}",
    "book/records/toy.npz": "zip",
    "book/claims.yml": "- id: K-01",
}


@pytest.fixture
def root(tmp_path):
    """Lay out a small book with its manifest."""
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert manifest.write(tmp_path) == sorted(FILES)
    return tmp_path


def test_what_is_bundled_recorded_and_claimed_is_as_the_manifest_says():
    assert manifest.differences() == [], f"read the difference; if it is meant, run: {manifest.REMEDY}"


def test_the_manifest_names_every_file_and_nothing_temporary(root):
    (root / "book" / "records" / ".toy.json.12.part").write_text("half")
    assert list(manifest.read(root)) == sorted(FILES)
    assert manifest.differences(root) == []
    assert manifest.write(root) == []


@pytest.mark.parametrize("path", FILES)
def test_a_changed_a_new_and_a_missing_file_are_named(root, path):
    (root / path).write_text("another content")
    assert manifest.differences(root) == [f"{path} is not the file that the manifest names"]
    (root / path).unlink()
    assert manifest.differences(root) == [f"{path} is in the manifest and not here"]
    (root / path).write_text(FILES[path])
    (root / "book" / "records" / "new.json").write_text("{}")
    assert manifest.differences(root) == ["book/records/new.json is here and not in the manifest"]


def test_a_record_is_entered_alone(root):
    (root / "book" / "records" / "toy.json").write_text("new")
    (root / "book" / "records" / "toy.npz").unlink()
    (root / "book" / "claims.yml").write_text("another wording")
    assert len(manifest.differences(root)) == 3
    assert len(manifest.differences(root, only=["toy"])) == 2
    manifest.enter(["toy"], root)
    assert manifest.differences(root) == ["book/claims.yml is not the file that the manifest names"]
    assert manifest.differences(root, only=["toy"]) == []
    assert list(manifest.read(root)) == sorted(set(FILES) - {"book/records/toy.npz"})


@pytest.mark.parametrize("content", ["", "<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs", "[]", '{"a": 1}', None])
def test_a_manifest_that_is_not_whole_names_the_command_and_is_written_anew(root, content):
    (root / manifest.NAME).unlink()
    if content is not None:
        (root / manifest.NAME).write_text(content)
    with pytest.raises(ValueError, match=r"write it anew: python -m book record --manifest"):
        manifest.differences(root)
    assert manifest.write(root) == sorted(FILES)
    assert json.loads((root / manifest.NAME).read_text()) == manifest.compute(root)
