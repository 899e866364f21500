"""The check of the book's words: it reads prose alone, names place and remedy, and holds for the book as it stands."""

import pytest

from tools import vocabulary


@pytest.mark.parametrize(
    "text",
    [
        "`hears`",
        "$hears$",
        "```python\nhears\n```",
        "```{code-cell} ipython3\nhears = 1\n```",
        "“it hears”",
        "% a comment hears",
        ":caption: hears",
    ],
)
def test_what_is_no_prose_is_left_out(text):
    assert list(vocabulary.unwanted(text, {"hears": "attend"})) == []


@pytest.mark.parametrize(
    "text",
    [
        "A row hears.",
        "```{note}\nA row hears.\n```",
        "% comment\nA row hears.",
        "```{code-cell} ipython3\nx = 1\n```\n\nA row\nhears.",
    ],
)
def test_prose_is_read_wherever_it_stands(text):
    ((line, word, remedy),) = vocabulary.unwanted(text, {"hears": "attend"})
    assert text.splitlines()[line - 1].endswith("hears.")
    assert (word, remedy) == ("hears", "attend")


def test_a_word_that_the_book_does_not_use_fails_the_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "book").mkdir()
    for name in ("book/page.md", "README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("A query attends to a key.\n", encoding="utf-8")
    monkeypatch.setattr(vocabulary, "ROOT", tmp_path)
    assert vocabulary.main() == 0
    (tmp_path / "book/page.md").write_text("\nA query listens to a key.\n", encoding="utf-8")
    assert vocabulary.main() == 1
    assert "book/page.md:2: 'listens'" in capsys.readouterr().out
