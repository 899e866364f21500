"""Claims as functions: a verdict follows from a condition, and with other inputs a condition that fails is a note."""

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
import torch

from book.publish import claims
from book.publish.claims import NoVerdict, claim, claim_functions, verdicts
from book.publish.inputs import Inputs
from book.publish.ledger import BadLedger, Verdict

KINDS = {
    "reproduced": claims.reproduced,
    "corrected": claims.corrected,
    "conditional": claims.conditional,
    "holds on a stand-in": claims.holds_on_a_stand_in,
    "not reproduced": claims.not_reproduced,
    "not testable": claims.not_testable,
}
LIMIT = 1
OWN, OTHER = Inputs("gpt2", "gpt2"), Inputs("/somewhere/my-model", "gpt2")
UNDECIDED = [None, math.nan, np.float64("nan"), np.float32("nan"), torch.tensor(math.nan)]


@dataclass(frozen=True)
class Measured:
    """What a study of one number measures."""

    inputs: Inputs
    error: float | None


@claim("K-14")
def shifts_cancel(m: Measured) -> claims.Outcome:
    """A shift of all scores changes nothing."""
    return claims.reproduced(f"The difference is {m.error}.", more="It is small.", when=m.error and m.error < LIMIT)


@claim("K-15")
def key_bias_cancels(m: Measured) -> claims.Outcome:
    """The key bias changes nothing."""
    return claims.corrected("It changes 3 of 4.", when=True)


@pytest.fixture
def study():
    """Make a study whose claims are those above."""
    made = ModuleType("study")
    made.claims = ModuleType(__name__)
    made.claims.shifts_cancel, made.claims.key_bias_cancels = shifts_cancel, key_bias_cancels
    made.claims.imported = claim("K-16")(lambda m: claims.reproduced("of another study", when=True))
    made.claims.imported.__module__ = "elsewhere"
    return made


@pytest.fixture
def displayed(monkeypatch):
    """Collect what a cell displays."""
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", [True, False, np.True_, np.False_, torch.tensor(True), 1, 0, 0.5])
def test_an_outcome_keeps_its_kind_and_whether_it_holds(kind, when):
    outcome = KINDS[kind]("Because.", when=when)
    assert (outcome.verdict, outcome.evidence) == (kind, "Because.")
    assert outcome.holds is bool(when)
    assert outcome.decided


@pytest.mark.parametrize("when", UNDECIDED, ids=repr)
def test_a_condition_that_cannot_be_told_is_undecided_and_does_not_hold(when):
    outcome = claims.reproduced("Because.", when=when)
    assert not outcome.decided
    assert not outcome.holds


@pytest.mark.parametrize("when", ["True", "", [1], (0,), {"a": 1}, np.array([True, False]), torch.zeros(2)], ids=repr)
def test_what_is_no_truth_value_is_refused(when):
    with pytest.raises(TypeError, match="when must be a computed truth value"):
        claims.reproduced("Because.", when=when)


def test_a_claim_that_is_not_in_the_ledger_is_refused():
    with pytest.raises(BadLedger, match=r"Z-99 is not in the ledger.*book/claims\.yml"):
        claim("Z-99")


def test_only_the_studys_own_functions_are_its_claims(study):
    assert [function.claim_id for function in claim_functions(study.claims)] == ["K-14", "K-15"]


def test_the_claims_of_a_package_are_those_of_its_modules_in_the_order_of_its_imports():
    package, elsewhere = ModuleType("tiny.claims"), ModuleType("tiny.measure")
    for name, claim_id in (("second", "K-15"), ("first", "K-14")):
        module = ModuleType(f"tiny.claims.{name}")
        module.judge = claim(claim_id)(lambda m: claims.reproduced("Because.", when=True))
        module.judge.__module__ = module.__name__
        setattr(package, name, module)
    elsewhere.judge = claim("K-16")(lambda m: claims.reproduced("Because.", when=True))
    elsewhere.judge.__module__ = elsewhere.__name__
    package.elsewhere = elsewhere
    assert [function.claim_id for function in claim_functions(package)] == ["K-15", "K-14"]


@pytest.mark.parametrize("inputs", [OWN, OTHER], ids=["own", "other"])
def test_a_condition_that_holds_is_a_verdict(study, displayed, inputs):
    verdicts(study, Measured(inputs, 0.5))
    assert displayed == [
        Verdict("K-14", "reproduced", "The difference is 0.5.", "It is small.", "m.error and m.error < 1"),
        Verdict("K-15", "corrected", "It changes 3 of 4."),
    ]


def test_a_condition_is_written_with_the_numbers_and_the_lines_that_it_rests_on():
    def two_verdicts(m):
        if m.other is not None:
            small = m.other / m.scale
            return claims.not_testable("It is.", when=small < LIMIT)
        small, scale = m.error / m.scale, m.scale
        if not scale:
            return claims.reproduced("Nothing.", when=None)
        return claims.reproduced("It is.", when=small < 2 * LIMIT)

    assert claims.condition(two_verdicts, "reproduced") == "small, scale = (m.error / m.scale, m.scale)\nsmall < 2 * 1"
    assert claims.condition(two_verdicts, "not testable") == "small = m.other / m.scale\nsmall < 1"
    assert claims.condition(two_verdicts, "corrected") == ""


@pytest.mark.parametrize(("error", "reason"), [(2.0, "condition false"), (None, "undecided")])
def test_a_verdict_of_the_book_that_does_not_follow_stops_the_page(study, displayed, error, reason):
    with pytest.raises(AssertionError, match=rf"K-14: the verdict 'reproduced' does not follow .*\({reason}\)"):
        verdicts(study, Measured(OWN, error))
    assert not displayed


@pytest.mark.parametrize(("error", "words"), [(2.0, "does not hold"), (None, "cannot be told")])
def test_with_other_inputs_it_is_a_note_and_the_page_goes_on(study, displayed, error, words):
    verdicts(study, Measured(OTHER, error))
    note, verdict = displayed
    assert isinstance(note, NoVerdict)
    assert isinstance(verdict, Verdict)
    shown = note._repr_mimebundle_()
    assert shown["text/plain"].startswith(
        f"K-14 not here: The book's verdict is 'reproduced'. With the model my-model what it rests on {words}"
    )
    assert shown["text/markdown"].startswith("**K-14 · not here.**")
    assert f"The difference is {error}." in shown["text/plain"]


def test_a_note_is_not_collected_as_a_verdict(tmp_path):
    import json

    from book.publish import ledger

    note = NoVerdict("K-14", claims.reproduced("It is 3.", when=False), OTHER.describe())
    output = {"output_type": "display_data", "data": note._repr_mimebundle_()}
    (tmp_path / "one.json").write_text(json.dumps([{"source": "", "outputs": [output]}]))
    assert not ledger.collect(tmp_path)


def test_another_device_is_no_other_input(study):
    inputs = Inputs("gpt2", "gpt2", device=torch.device("meta"))
    assert not inputs.departs
    with pytest.raises(AssertionError):
        verdicts(study, Measured(inputs, 2.0))
