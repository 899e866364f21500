"""What was known elsewhere: every finding and every proven statement has one entry, and its sources are listed."""

import re
import subprocess
from datetime import date

import pytest
from pybtex.database import parse_file

from book.publish import execution, known

BIBLIOGRAPHY = parse_file(str(known.ROOT / "book" / "references.bib")).entries
PAGES = list(execution.pages().values())
STATED = [statement for page in PAGES for statement in known.statements(page)]
WHOLE = {"label": "a", "degree": "known", "sentence": "Shown by {cite:t}`b`.", "date": date(2026, 1, 2)}


def written(tmp_path, *rows: dict):
    """Write entries into a file."""
    path = tmp_path / "known.yml"
    lines = (", ".join(f"{k}: {v if k == 'date' else repr(v)}" for k, v in row.items()) for row in rows)
    path.write_text("\n".join(f"- {{{line}}}" for line in lines), encoding="utf-8")
    return path


def newest() -> date:
    """Return the day that no search can be later than: today, or that of the last commit if the clock is behind."""
    asked = ["git", "log", "-1", "--format=%cs"]
    said = subprocess.run(asked, cwd=known.ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return max(date.today(), date.fromisoformat(said) if said else date.min)


def test_every_statement_has_one_entry_and_every_entry_a_statement():
    assert {statement.label for statement in STATED} == {entry.label for entry in known.entries()}


def test_a_proven_statement_stands_once():
    labels = [statement.label for statement in STATED if statement.kind in known.PROVEN]
    assert len(labels) == len(set(labels)) > 20


def test_every_item_of_the_findings_carries_one_label():
    page = (known.ROOT / "book" / "findings.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\* \*\*.*", page, re.MULTILINE)
    assert len(listed) > 5
    assert not [item for item in listed if len(known.FINDING.findall(item)) != 1]


def test_no_two_findings_of_a_page_have_one_title():
    """Six items of a list were all called after the first of them."""
    for page in known.pages():
        found = [s for s in known.statements(page) if s.kind == "finding" and s.page == "findings"]
        titles = [statement.title for statement in found]
        assert len(set(titles)) == len(titles), titles


@pytest.mark.parametrize("entry", known.entries(), ids=lambda entry: entry.label)
class TestEntry:
    def test_its_sources_are_in_the_bibliography(self, entry):
        assert not set(entry.keys) - set(BIBLIOGRAPHY)

    def test_its_search_is_not_in_the_future(self, entry):
        assert date(2025, 1, 1) < entry.date <= newest()

    def test_its_sentence_is_whole_and_short(self, entry):
        assert entry.sentence.endswith(".")
        assert len(entry.sentence.split()) <= 80


def test_every_source_of_the_bibliography_is_cited():
    cited = {key for page in PAGES for key in known.citations(page.read_text(encoding="utf-8"))}
    cited |= {key for entry in known.entries() for key in entry.keys}
    assert set(BIBLIOGRAPHY) == cited


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"degree": "perhaps"}, "none of known, partly, not found, one code base"),
        ({"sentence": "Shown by somebody."}, "must cite who knew it"),
        ({"degree": "partly", "sentence": "Partly."}, "must cite who knew it"),
        ({"degree": "not found"}, "must say what was searched"),
        ({"degree": "one code base"}, "must say what was searched"),
        ({"sentence": ""}, "has no sentence"),
        ({"date": "'yesterday'"}, "a date that is no date"),
        ({"note": "more"}, "unexpected keyword argument 'note'"),
    ],
)
def test_an_entry_that_is_not_whole_is_refused(tmp_path, change, reason):
    with pytest.raises(known.BadEntries, match=reason):
        known.entries(written(tmp_path, WHOLE | change))


def test_a_date_and_a_label_are_needed_and_a_label_comes_once(tmp_path):
    with pytest.raises(known.BadEntries, match="required positional argument: 'date'"):
        known.entries(written(tmp_path, {k: v for k, v in WHOLE.items() if k != "date"}))
    (tmp_path / "two").mkdir()
    with pytest.raises(known.BadEntries, match="more than one entry for a"):
        known.entries(written(tmp_path / "two", WHOLE, WHOLE))


def test_nothing_found_needs_no_source_but_a_search(tmp_path):
    (entry,) = known.entries(written(tmp_path, WHOLE | {"degree": "not found", "sentence": "No.", "searched": "all."}))
    assert entry.keys == ()


def test_statements_are_read_in_the_order_of_the_page(tmp_path):
    page = tmp_path / "random-scores.md"
    page.write_text(
        "# A\n\n1. **First $x$.** So.\n   {known}`f-one, f-two`\n\n````{prf:theorem} Long\n:class: a\n"
        ":label: thm\nTrue.\n````\n\n```{prf:lemma}\nNo label.\n```\n\n"
        "```{prf:definition} D\n:label: d\n```\n",
        encoding="utf-8",
    )
    assert [(s.label, s.kind, s.title) for s in known.statements(page)] == [
        ("f-one", "finding", "First $x$"),
        ("f-two", "finding", "First $x$"),
        ("thm", "theorem", "Long"),
        ("", "lemma", ""),
    ]
