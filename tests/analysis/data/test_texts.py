"""The bundled passages are what their README says; the corpus holds out what it says; bad text files are refused."""

import hashlib

import pytest

from analysis.data import texts
from tests.analysis.data.passages import make_passages

README = (texts.BUNDLED.parent / "README.md").read_text(encoding="utf-8")


def test_the_passages_are_48_and_their_lengths_are_spread():
    lengths = sorted(len(text.split()) for text in texts.passages())
    assert len(lengths) == 48
    assert 30 <= lengths[0] < 40
    assert 400 < lengths[-1] <= 450
    for low in (30, 60, 120, 240):
        assert sum(low <= length < 2 * low for length in lengths) >= 8


def test_the_readme_states_the_digest_of_the_bundled_file():
    assert hashlib.sha256(texts.BUNDLED.read_bytes()).hexdigest() in README


def test_the_same_topics_give_the_same_passages():
    if texts.digest("\n\n".join(texts.topics().values())) not in README:
        pytest.skip("another Python version: its language reference has other words")
    assert make_passages() == texts.passages()


def test_longest_and_count_select():
    short = texts.passages(longest=60)
    assert 0 < len(short) < 48
    assert max(len(text.split()) for text in short) <= 60
    assert texts.passages(longest=60, count=3) == short[:3]


def test_nothing_held_out_is_trained_on():
    trained, held_out = texts.corpus(), texts.corpus(held_out=True)
    assert len(trained) > 2e5
    assert len(held_out) > 5e4
    paragraphs = trained.split("\n\n")
    assert len(paragraphs) == len(set(paragraphs))
    assert not set(paragraphs) & set(held_out.split("\n\n"))
    sentence = 'The simple form, "assert expression", is equivalent to'
    assert sentence in held_out
    assert sentence not in trained


def test_docstrings_come_in_the_order_of_paths_and_nothing_is_imported(tmp_path):
    (tmp_path / "b.py").write_text('"""Second."""\nraise SystemExit("imported")\n')
    (tmp_path / "a.py").write_text('"""First."""\ndef f():\n    "Inner."\n')
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.py").write_text('"""Skipped."""\n')
    assert texts.docstrings(tmp_path) == ["First.", "Inner.", "Second."]


def test_a_users_file_is_cut_at_blank_lines_else_into_lines(tmp_path):
    (tmp_path / "a.txt").write_text("One\nline.\n\nTwo.\n")
    (tmp_path / "b.txt").write_text("Three.\nFour.\n")
    assert texts.read(tmp_path / "a.txt") == ["One\nline.", "Two."]
    assert texts.passages(source=tmp_path) == ["One\nline.", "Two.", "Three.", "Four."]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b" \n\n ", "is empty"), (b"\xff\xfe\x00", "cannot be read as UTF-8"), (b"a\0b", "not text")],
)
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(ValueError, match=f"bad.txt.*{message}"):
        texts.read(tmp_path)


def test_missing_path_empty_folder_and_too_few_passages_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        texts.read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no \.txt file"):
        texts.read(tmp_path)
    with pytest.raises(ValueError, match="49 passages were wanted, but only 48"):
        texts.passages(count=49)
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"count must be at least 1, got {count}"):
            texts.passages(count=count)
    with pytest.raises(ValueError, match="have at most 0 words"):
        texts.passages(longest=0)
    with pytest.raises(ValueError, match="0 of 48 in the bundle have at most 3 words"):
        texts.passages(longest=3)
