"""Verdicts of a script's own variables: what is false, vacuous or unknown is refused."""

import linecache

import pytest

from claims_kit import BadLedger, Claim, Verdict, judge, judging

LEDGER = "- {id: C-1, place: p, claim: It is small., quote: small}\n"
JUDGE = 'judge("{claim}", "{outcome}", "It is.", when=lambda {of}: {when}, turned_by={turned_by})'
GIVEN = {"claim": "C-1", "outcome": "reproduced", "of": "gap, shares", "when": "gap < 1", "turned_by": '{"gap": 2}'}


def given(folder, capsys, **options):
    """Execute a script beside a ledger; return what it prints."""
    (folder / "claims.yml").write_text(LEDGER)
    script = folder / "judge.py"
    script.write_text(JUDGE.format(**GIVEN | options))
    linecache.checkcache()
    exec(compile(script.read_text(), str(script), "exec"), {"judge": judge, "gap": 0.5, "shares": [0.1, 0.2]})
    return capsys.readouterr().out


def test_a_script_prints_the_verdict(tmp_path, capsys):
    assert given(tmp_path, capsys) == "C-1 reproduced: It is.\n"


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"when": "gap > 1"}, AssertionError, r"does not follow: gap > 1 is False; gap = 0.5, shares = \[0.1 0.2\]"),
        ({"when": "None"}, AssertionError, "does not follow"),
        ({"when": "float('nan')"}, AssertionError, "does not follow"),
        ({"turned_by": "{}"}, AssertionError, "cannot fail by anything"),
        ({"turned_by": '{"gap": 0.1}'}, AssertionError, "cannot fail by gap"),
        ({"turned_by": '{"gape": 0.1}'}, AssertionError, "cannot fail by gape"),
        ({"of": "gape"}, NameError, "no variable of the page is called gape"),
        ({"claim": "C-2"}, BadLedger, "C-2 is not in the ledger"),
        ({"outcome": "right"}, BadLedger, "no outcome 'right'"),
    ],
)
def test_what_is_false_vacuous_or_unknown_is_refused(tmp_path, capsys, options, error, named):
    with pytest.raises(error, match=named):
        given(tmp_path, capsys, **options)


def test_a_readers_measurements_may_fail_a_condition():
    of = {"gap": 2}
    assert judging.tried("C-1", eval("lambda gap: gap < 1", of), {}, ours=False) is False
    assert judging.tried("C-1", eval("lambda gap: None", of), {}, ours=False) is None


def test_a_condition_is_written_as_in_the_code_with_counterfeits_of_any_kind():
    gap, forged = 0.5, {"gap": 3}  # noqa: F841
    options = {"when": lambda gap: gap < 1, "turned_by": forged}
    assert judging.source(options["when"], forged) == "<lambda>\n# turned by gap = 3"
    when = dict(when=lambda gap: gap < 1, turned_by={"gap": 1 + 1})  # noqa: C408
    assert judging.source(when["when"], {"gap": 2}) == "gap < 1\n# turned by gap = 1 + 1"


def test_what_a_notebook_shows():
    claim = Claim(id="C-1", place="Table 1", claim="It is.", quote="is", matters="A lot.")
    verdict = Verdict("C-1", "corrected", "It was.", "Twice.", "gap < 1")
    shown = judging.bundle(verdict, judging.explain(claim, verdict, numbers=str.upper))
    assert shown["text/plain"] == "C-1 corrected: It was."
    assert shown["text/markdown"].split("\n\n") == [
        "**C-1 · corrected** · Table 1",
        "*The document says:* It is. “is”",
        "*We found:* IT WAS.",
        "*Why it matters:* A lot.",
        "*In detail:* TWICE.",
        "*The verdict rests on:*",
        "```python\ngap < 1\n```",
    ]
    assert "where" not in shown[judging.MIME]
