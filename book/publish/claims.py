"""Claims as functions: each looks at a chapter's measurement and returns a verdict that could have failed.

A study's ``claims.py`` holds one function for each claim of the documents that its chapter judges::

    @claim("K-15")
    def key_bias_cancels(m: Measured) -> Outcome:
        '''b_K never changes the attention.'''
        return reproduced(f"b_K = 0 changes the output by {m.error_no_key_bias:.0e} of its scale.",
                          when=m.error_no_key_bias < 1e-12)

The evidence is one sentence of at most 25 words; what else was computed stands in ``more``. The page shows the
condition as it is written here (:func:`condition`).

Where they are many, ``claims`` is a package, with modules named after what the claims are about.

The page calls :func:`verdicts` once. For every function a test hands in a counterfeit measurement and sees the
verdict refused.
"""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from book.publish import ledger, phrases
from book.publish.ledger import BadLedger, Verdict


@dataclass(frozen=True)
class Outcome:
    """A verdict before it is emitted: one of the outcomes, a sentence of evidence, the rest, the computed condition."""

    verdict: str
    evidence: str
    more: str
    holds: bool | None

    @property
    def decided(self) -> bool:
        """Say whether the condition could be told at all (it is ``None`` or nan where there is too little to see)."""
        return self.holds is not None


def _outcome(verdict: str, evidence: str, more: str, when: Any) -> Outcome:
    try:
        unknown = when is None or math.isnan(when)
    except (TypeError, ValueError):
        raise TypeError(f"when must be a computed truth value, got {when!r}") from None
    return Outcome(verdict, evidence, more, None if unknown else bool(when))


def reproduced(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """The claim holds as stated, in the document's own setting."""
    return _outcome("reproduced", evidence, more, when)


def corrected(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """A printed formula, index, number or word is wrong; the printed form fails and the corrected one holds."""
    return _outcome("corrected", evidence, more, when)


def conditional(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """Inside the document's setting there are cases where the claim holds and cases where it fails; both are tested."""
    return _outcome("conditional", evidence, more, when)


def holds_on_a_stand_in(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """The document's own model cannot be had; the claim holds on the nearest one, which the evidence names."""
    return _outcome("holds on a stand-in", evidence, more, when)


def not_reproduced(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """The claim fails in its setting, on the nearest model that can be had."""
    return _outcome("not reproduced", evidence, more, when)


def not_testable(evidence: str, *, more: str = "", when: Any) -> Outcome:
    """Nothing at hand could tell; the evidence says what would, and the condition is that of the nearest test."""
    return _outcome("not testable", evidence, more, when)


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


def condition(function: Callable[[Any], Outcome], verdict: str) -> str:
    """Write the condition of a claim function's verdict as its code does, after the lines that name its parts.

    Numbers that the module names stand in the place of their names.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    wanted = verdict.replace(" ", "_").replace("-", "_")
    found = [when for when in _conditions(tree, wanted) if not isinstance(when, ast.Constant)]
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    used: dict[int, ast.Assign] = {}
    waiting = [(name, when.lineno) for when in found for name in _names(when)]
    while waiting:
        name, line = waiting.pop()
        named = [node for node in parts if node.lineno < line and any(name in _names(each) for each in node.targets)]
        node = max(named, key=lambda node: node.lineno, default=None)
        if node is not None and node.lineno not in used:
            used[node.lineno] = node
            waiting += [(name, node.lineno) for name in _names(node.value)]
    own = {name for node in parts for each in node.targets for name in _names(each)}
    known = {name: value for name, value in function.__globals__.items() if type(value) in (int, float)}
    numbers = _Numbers({name: value for name, value in known.items() if name not in own})
    return "\n".join(ast.unparse(numbers.visit(line)) for line in [*(used[line] for line in sorted(used)), *found])


def _conditions(tree: ast.AST, verdict: str) -> Iterator[ast.expr]:
    """Yield what a function hands over as ``when`` to the outcome of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == verdict:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "when")


def _names(node: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


class _Numbers(ast.NodeTransformer):
    """Put numbers in the place of the names that a module gives them."""

    def __init__(self, numbers: dict[str, float]):
        self.numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.numbers[node.id]) if node.id in self.numbers else node


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
            rests_on = condition(function, outcome.verdict)
            display(Verdict(function.claim_id, outcome.verdict, outcome.evidence, outcome.more, rests_on))
        elif measured.inputs.departs:
            display(NoVerdict(function.claim_id, outcome, measured.inputs.describe()))
        else:
            raise AssertionError(
                f"{function.claim_id}: the verdict {outcome.verdict!r} does not follow from the "
                f"computation ({'condition false' if outcome.decided else 'undecided'}): "
                f"{outcome.evidence}"
            )
