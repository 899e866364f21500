"""Every claim of the ledger is judged by one function, in the study of the chapter that the ledger names."""

import ast
from pathlib import Path

import pytest

from book.publish import ledger

STUDIES = ledger.ROOT / "book" / "studies"
CHAPTERS = [
    name
    for name in dict.fromkeys(c.chapter for c in ledger.claims())
    if (STUDIES / name.removeprefix("evidence/").replace("-", "_") / "measure.py").exists()
]


def study(chapter: str) -> Path:
    return STUDIES / chapter.removeprefix("evidence/").replace("-", "_")


def files(chapter: str) -> list[Path]:
    """Return the files of the claims of a chapter: a module of its study, or those of a package."""
    return [*study(chapter).glob("claims.py"), *study(chapter).glob("claims/*.py")]


def judged(path: Path) -> list[str]:
    """Return the ids of the claims that a module's functions judge, as its decorators name them."""
    decorators = [
        decorator
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    ]
    return [
        decorator.args[0].value
        for decorator in decorators
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).split(".")[-1] == "claim"
    ]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_claim_has_one_function_in_the_study_of_its_chapter(chapter):
    mine = [claim.id for claim in ledger.claims() if claim.chapter == chapter]
    assert sorted(claim_id for path in files(chapter) for claim_id in judged(path)) == sorted(mine)


def test_claims_are_judged_nowhere_else():
    chapters = {path for chapter in CHAPTERS for path in files(chapter)}
    elsewhere = {
        str(path.relative_to(STUDIES)): ids
        for path in sorted(STUDIES.rglob("*.py"))
        if path not in chapters and (ids := judged(path))
    }
    assert not elsewhere


def test_functions_are_counted_by_their_decorators(tmp_path):
    (tmp_path / "claims.py").write_text(
        '@claim("K-01")\ndef a(m): ...\n\n\n@publish.claim("K-01")\ndef b(m): ...\n\n\n'
        '@cache\ndef c(m): ...\n\n\n@other("K-02")\ndef d(m): ...\n'
    )
    assert judged(tmp_path / "claims.py") == ["K-01", "K-01"]
