"""Claims as functions: each looks at a chapter's measurement and returns a verdict that could have failed.

A study's ``claims.py`` holds one function for each claim of the documents that its chapter judges::

    @claim("K-15")
    def key_bias_cancels(m: Measured) -> Outcome:
        '''b_K never changes the attention.'''
        return reproduced(f"b_K = 0 changes the output by {m.error_no_key_bias:.0e} of its scale.",
                          when=m.error_no_key_bias < 1e-12)

Where they are many, ``claims`` is a package, with modules named after what the claims are about.

The page calls :func:`verdicts` once. For every function a test hands in a counterfeit measurement and sees the
verdict refused.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from book.publish import ledger, phrases
from book.publish.ledger import BadLedger, Verdict


@dataclass(frozen=True)
class Outcome:
    """A verdict before it is emitted: one of the five outcomes, its evidence, and the computed condition."""

    verdict: str
    evidence: str
    holds: bool | None

    @property
    def decided(self) -> bool:
        """Say whether the condition could be told at all (it is ``None`` or nan where there is too little to see)."""
        return self.holds is not None


def _outcome(verdict: str, evidence: str, when: Any) -> Outcome:
    try:
        unknown = when is None or math.isnan(when)
    except (TypeError, ValueError):
        raise TypeError(f"when must be a computed truth value, got {when!r}") from None
    return Outcome(verdict, evidence, None if unknown else bool(when))


def reproduced(evidence: str, *, when: Any) -> Outcome:
    """The claim holds as stated, in the document's own setting."""
    return _outcome("reproduced", evidence, when)


def corrected(evidence: str, *, when: Any) -> Outcome:
    """A printed formula, index, number or word is wrong; the printed form fails and the corrected one holds."""
    return _outcome("corrected", evidence, when)


def conditional(evidence: str, *, when: Any) -> Outcome:
    """Inside the document's setting there are cases where the claim holds and cases where it fails; both are tested."""
    return _outcome("conditional", evidence, when)


def not_reproduced(evidence: str, *, when: Any) -> Outcome:
    """The claim fails in its setting, on the nearest model that can be had."""
    return _outcome("not reproduced", evidence, when)


def not_testable(evidence: str, *, when: Any) -> Outcome:
    """Nothing at hand could tell; the evidence says what would, and the condition is that of the nearest test."""
    return _outcome("not testable", evidence, when)


def claim(claim_id: str) -> Callable[[Callable[[Any], Outcome]], Callable[[Any], Outcome]]:
    """Mark a function as the judge of one claim, by its id in ``book/claims.yml``.

    Raises
    ------
    BadLedger
        If there is no such claim.
    """
    if claim_id not in {known.id for known in ledger.claims()}:
        raise BadLedger(f"{claim_id} is not in the ledger: give it an entry in book/claims.yml")

    def mark(function: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        function.claim_id = claim_id  # type: ignore[attr-defined]
        return function

    return mark


def claim_functions(module: ModuleType) -> Iterator[Callable[[Any], Outcome]]:
    """Yield the claim functions that a module defines, in the order in which they are written.

    Of a package they are those of its modules, in the order in which it imports them.
    """
    for value in vars(module).values():
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
            yield from claim_functions(value)
        elif getattr(value, "claim_id", None) and getattr(value, "__module__", None) == module.__name__:
            yield value


@dataclass(frozen=True)
class NoVerdict:
    """A note instead of a verdict: with a reader's model or texts, the condition does not hold or cannot be told."""

    id: str
    outcome: Outcome
    inputs: str

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {
            "text/plain": f"{self.id} not here: {self._sentence(self.inputs)}",
            "text/markdown": f"**{self.id} · not here.** {self._sentence(phrases.as_text(self.inputs))}",
        }

    def _sentence(self, inputs: str) -> str:
        fails = "does not hold" if self.outcome.decided else "cannot be told"
        return (
            f"The book's verdict is '{self.outcome.verdict}'. With {inputs} what it rests on {fails}; "
            f"the same computation gives: {self.outcome.evidence}"
        )


def verdicts(study: ModuleType, measured: Any) -> None:
    """Emit the verdict on every claim of a study, as outputs of the running cell.

    A verdict is about the book's own inputs. In an execution with another model or other texts (``measured.inputs``),
    a condition that fails or cannot be told becomes a note, and the page goes on.

    Raises
    ------
    AssertionError
        If a condition is false, or cannot be told, for the book's own inputs: then the page must not build.
    """
    from IPython.display import display

    for function in claim_functions(study.claims):
        outcome = function(measured)
        if outcome.holds:
            display(Verdict(function.claim_id, outcome.verdict, outcome.evidence))
        elif measured.inputs.departs:
            display(NoVerdict(function.claim_id, outcome, measured.inputs.describe()))
        else:
            raise AssertionError(
                f"{function.claim_id}: the verdict {outcome.verdict!r} does not follow from the "
                f"computation ({'condition false' if outcome.decided else 'undecided'}): "
                f"{outcome.evidence}"
            )
