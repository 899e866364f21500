"""The papers that were judged: every verdict holds, and the summary beside it names the same outcomes."""

import re
from pathlib import Path

import pytest

from claims_kit import runs

EXAMPLES = Path(__file__).parents[1] / "examples"
OUTCOMES = re.compile(r"^\* \*\*(\S+), (.*?)\.\*\*", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("folder", runs.ledgers(EXAMPLES), ids=lambda folder: folder.name)
def test_an_example_holds(folder):
    pytest.importorskip("analysis")
    found = runs.run(folder)
    assert found.problems == {}
    said = dict(OUTCOMES.findall((folder / "summary.md").read_text(encoding="utf-8")))
    counted = [claim.id for claim in found.claims if not claim.is_definition]
    assert said == {name: found.verdicts[name].outcome for name in counted}
