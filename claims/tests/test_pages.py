"""What readers get of a judged paper: page, summary, badge, data that fits its schema."""

import json
import re
from html.parser import HTMLParser

import pytest

from claims_kit import Claim, Verdict, pages
from claims_kit.runs import Run

CLAIMS = (
    Claim(id="C-1", place="Table <1>", claim="It is.", quote="is & was", setting="n = 3"),
    Claim(id="C-2", place="2", claim="It was.", matters="A lot."),
    Claim(id="C-3", place="3", claim="It will be."),
    Claim(id="C-4", place="3", claim="Let it be.", kind="definition"),
)
VERDICTS = {
    "C-1": Verdict("C-1", "reproduced", "Yes.", "", "a < 1\n# turned by a = 2", "judge.py:3"),
    "C-2": Verdict("C-2", "not reproduced", "No.", "By far.", "b < 1\n# turned by b = 2", "judge.py:9"),
    "C-4": Verdict("C-4", "reproduced", "Yes."),
}
PAPER = {
    "title": "A <paper>",
    "link": "https://arxiv.org/abs/1",
    "by": "A. Author, version 2",
    "scope": "Two & more.",
    "easy": "All.",
}


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path, PAPER, CLAIMS, VERDICTS, {"C-3": "C-3 has no verdict"}, {"python": "3.12"})


class Balanced(HTMLParser):
    """Collects the tags that are opened and not closed."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone_with_what_may_surprise_first(run):
    page = pages.page(run)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert re.findall(r'<tr id="([^"]+)"', page) == ["c-2", "c-1", "c-3", "c-4"]
    assert "3 claims: 1 reproduced, 1 not reproduced, 1 open; 2 forged measurements refused" in page
    assert "Table &lt;1&gt;" in page
    assert "<blockquote>is &amp; was</blockquote>" in page
    assert "# turned by b = 2" in page
    assert not re.search(r'(src|href)="(?!https://arxiv)', page)


def test_a_link_that_is_no_address_of_the_web_is_left_out(run):
    assert "javascript:" not in pages.page(Run(run.folder, {"link": "javascript:alert(1)"}, CLAIMS, VERDICTS, {}))


def test_the_summary_has_the_parts_of_a_reproducibility_report(run):
    summary = pages.summary(run)
    assert re.findall("^#+ (.*)", summary, re.MULTILINE) == [
        "A <paper>: reproducibility summary",
        "Scope of reproducibility",
        "Results",
        "What was easy",
    ]
    assert "* **C-2, not reproduced.** It was. *No.*" in summary
    assert "A. Author, version 2" in summary


def test_the_badge_counts(run):
    assert ">1 of 3 hold, 2 forgeries refused<" in pages.badge(run)


def test_what_is_written_fits_its_schema(run, tmp_path):
    pages.write(run, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("index.html", "summary.md", "badge.svg", "ledger.json", "ledger.schema.json")
    }
    copy, schema = (json.loads((tmp_path / "out" / f"ledger{end}.json").read_text()) for end in ("", ".schema"))
    assert copy["claims"][1]["counterfeits"] == ["b = 2"]
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(copy, schema)
    copy["claims"][0]["outcome"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(copy, schema)
