"""The ledger: what is read, what is refused, what is counted, and the schema."""

import pytest

from claims_kit import BadLedger, Claim, Verdict, ledger

CLAIMS = tuple(Claim(id=f"C-{n}", place="1", claim="It is.", kind="definition" if n == 3 else "") for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a: 1", "cannot be read"),
        ("claims: [{id: C-1}]", r"entry 1 \(C-1\) lacks place, claim"),
        ("claims: [{id: C-1, place: p, Claim: c}]", r"entry 1 \(C-1\) has the field Claim; the fields are id, "),
        ("claims: [{id: C-1, place: 1, claim: c}]", r"entry 1 \(C-1\): place must be text"),
        ("claims: [{id: C-1, place: p, claim: c}, {id: C-1, place: p, claim: c}]", "C-1 more than once"),
        ("[", "cannot be read"),
    ],
)
def test_what_is_no_ledger_is_refused(tmp_path, text, named):
    (tmp_path / "claims.yml").write_text(text)
    with pytest.raises(BadLedger, match=named):
        ledger.load(tmp_path / "claims.yml")


def test_a_ledger_is_a_list_or_has_a_paper_beside_it(tmp_path):
    rows = "- {id: C-1, place: p, claim: c, quote: q}\n"
    for text, paper in ((rows, {}), (f"paper: {{title: t}}\nclaims:\n{rows}", {"title": "t"})):
        (tmp_path / "claims.yml").write_text(text)
        assert ledger.load(tmp_path / "claims.yml") == (paper, (Claim(id="C-1", place="p", claim="c", quote="q"),))


def test_an_unknown_claim_an_unknown_outcome_and_a_second_verdict_are_refused():
    given = Verdict("C-1", "reproduced", "Yes.", where="judge.py:3")
    with pytest.raises(BadLedger, match="C-9 is not in the ledger"):
        ledger.find(CLAIMS, "C-9")
    with pytest.raises(BadLedger, match="no outcome 'right'"):
        ledger.find(CLAIMS, "C-1", "right")
    with pytest.raises(BadLedger, match="C-1 has two verdicts"):
        ledger.gather(CLAIMS, [given, given])
    with pytest.raises(BadLedger, match="judges C-9"):
        ledger.gather(CLAIMS, [Verdict("C-9", "reproduced", "Yes.")])


def test_definitions_are_not_counted_and_what_may_surprise_comes_first():
    verdicts = {"C-1": Verdict("C-1", "reproduced", ""), "C-2": Verdict("C-2", "not reproduced", "")}
    assert {k: n for k, n in ledger.count(CLAIMS, verdicts).items() if n} == {"reproduced": 1, "not reproduced": 1}
    assert [claim.id for claim in ledger.surprising_first(CLAIMS, verdicts)] == ["C-2", "C-1", "C-3"]


def test_a_row_parts_the_condition_from_its_counterfeits_and_has_the_fields_of_the_schema():
    verdict = Verdict("C-2", "not reproduced", "No.", condition="gap > 1\n# turned by gap = 0", where="judge.py:3")
    row = ledger.row(CLAIMS[1], verdict)
    assert (row["condition"], row["counterfeits"], row["cell"]) == ("gap > 1", ["gap = 0"], "judge.py:3")
    assert set(row) == set(ledger.schema()["properties"]["claims"]["items"]["required"])
    assert ledger.row(CLAIMS[0], None)["outcome"] is None
