"""What a page of evidence says of its own variables: numbers in its text, findings, and verdicts on claims.

A page measures in its cells. :func:`glue` hands values to the text, and :func:`judge` gives the verdict on a claim::

    publish.judge("B-04", "reproduced", "Our forward pass equals the library's in every hidden state to 2e-5.",
                  when=lambda order_gap: order_gap < 2e-5, turned_by={"order_gap": 1e-3})

The parameters of ``when`` are variables of the page, by name. Each entry of ``turned_by`` is a counterfeit: a value of
one variable that must turn the verdict, whatever the others are. It is tried whenever the page runs.
"""

import ast
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from book.publish import inputs, ledger, phrases
from book.publish.ledger import BadLedger, Verdict

DIGITS = 6  # more than any page prints, so that no printed digit is rounded twice


def glue(prefix: str, **values: object) -> None:
    """Hand values to the page's text under the prefix and their name; those of a mapping under its keys as well.

    ``glue("similarity", best={"Q": 0.5})`` is shown by ``{glue:text}`similarity-best-Q:.2f```.
    """
    import myst_nb

    for name, value in values.items():
        label = f"{prefix}-{name.replace('_', '-')}"
        plain = value.item() if hasattr(value, "item") else value
        if isinstance(plain, Mapping):
            glue(label, **plain)
        else:
            myst_nb.glue(label, float(f"{plain:.{DIGITS}g}") if isinstance(plain, float) else plain, display=False)


def judge(
    claim: str, outcome: str, evidence: str, *, more: str = "", when: Callable, turned_by: Mapping[str, object]
) -> None:
    """Emit the verdict on a claim, as an output of the running cell.

    Parameters
    ----------
    claim, outcome
        The claim's id in ``book/claims.yml``, and one of :data:`book.publish.ledger.MEANINGS`.
    evidence, more
        A sentence of at most 25 words, and what else was computed.
    when
        The condition, a function of variables of the page; ``None`` or nan say that there is too little to see.
    turned_by
        For each variable that decides, a value that alone makes the condition false.

    Raises
    ------
    BadLedger
        If there is no such claim or outcome.
    AssertionError
        If, for the book's own inputs, the condition does not hold, or a counterfeit does not turn it.
    """
    ledger.claim_of(claim)
    if outcome not in ledger.OUTCOMES:
        raise BadLedger(f"{claim}: there is no outcome {outcome!r}; the outcomes are {', '.join(ledger.OUTCOMES)}")
    holds = tried(f"{claim}: {outcome!r}", when, turned_by)
    if holds:
        show(Verdict(claim, outcome, evidence, more, source(when, turned_by)))
    else:
        show(NotHere(claim, inputs.chosen().describe(), source(when), holds, measured(when)))


def finding(label: str, *, when: Callable, turned_by: Mapping[str, object]) -> None:
    """Hold a finding of the book to its numbers, as :func:`judge` holds a verdict; nothing is shown.

    The label is that of the finding in ``book/known_elsewhere.yml``, which stands in the text as ``{known}`label```.

    Raises
    ------
    AssertionError
        If, for the book's own inputs, the condition does not hold, or a counterfeit does not turn it.
    """
    tried(label, when, turned_by)


def tried(what: str, when: Callable, turned_by: Mapping[str, object]) -> bool | None:
    """Return whether a condition holds, ``None`` where it cannot be told, having tried its counterfeits."""
    values = measured(when)
    found = when(**values)
    holds = None if found is None or np.isnan(found) else bool(found)
    if inputs.chosen().departs:
        return holds
    if not holds:
        raise AssertionError(f"{what} does not follow: {source(when)} is {found}; {said(values)}")
    passing = [name for name, value in turned_by.items() if when(**values | {name: value})]
    if passing or not turned_by:
        raise AssertionError(f"{what} cannot fail by {', '.join(passing) or 'anything'}")
    return True


def measured(when: Callable) -> dict[str, object]:
    """Return the page's variables that are the parameters of a condition, by name."""
    names = inspect.signature(when).parameters
    if missing := [name for name in names if name not in when.__globals__]:
        raise NameError(f"no variable of the page is called {', '.join(missing)}")
    return {name: when.__globals__[name] for name in names}


def source(when: Callable, turned_by: Mapping[str, object] | None = None) -> str:
    """Write a condition, and what would turn it, as the cell does that holds it."""
    place = when.__code__
    cell = ast.parse("".join(linecache.getlines(place.co_filename)))
    calls = (node for node in ast.walk(cell) if isinstance(node, ast.Call))
    for options in ({keyword.arg: keyword.value for keyword in call.keywords} for call in calls):
        condition = options.get("when")
        if isinstance(condition, ast.Lambda) and condition.lineno == place.co_firstlineno:
            forged = options.get("turned_by") if turned_by else None
            pairs = zip(forged.keys, forged.values, strict=True) if isinstance(forged, ast.Dict) else ()
            turns = [f"{ast.literal_eval(name)} = {ast.unparse(value)}" for name, value in pairs if name]
            return "\n".join([ast.unparse(condition.body), *(f"# turned by {turn}" for turn in turns)])
    return when.__name__


def said(values: Mapping[str, object]) -> str:
    """Write the values of variables in a line, numbers with three digits.

    >>> said({"gap": 0.12345, "shares": [0.5, 0.25], "seeds": 3})
    'gap = 0.123, shares = [0.5 0.25], seeds = 3'
    """
    lines = (f"{n} = {np.array2string(np.asarray(v), precision=3, threshold=8)}" for n, v in values.items())
    return " ".join(", ".join(lines).split())


@dataclass(frozen=True)
class NotHere:
    """A note in place of a verdict: with a reader's model or texts, the condition does not hold or cannot be told."""

    id: str
    inputs: str
    condition: str
    holds: bool | None
    values: Mapping[str, object]

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        verdict = ledger.collect().get(self.id)
        book = f"The book's verdict is '{verdict.outcome}'. " if verdict else ""
        fails = "cannot be told" if self.holds is None else "does not hold"

        def sentence(inputs: str, condition: str, values: str) -> str:
            return f"{book}With {inputs} its condition, {condition}, {fails}: {values}."

        plain = sentence(self.inputs, self.condition, said(self.values))
        marked = sentence(phrases.as_text(self.inputs), *map(phrases.as_code, (self.condition, said(self.values))))
        return {"text/plain": f"{self.id} not here: {plain}", "text/markdown": f"**{self.id} · not here.** {marked}"}


def show(verdict: Verdict | NotHere) -> None:
    """Display a verdict or the note in its place."""
    from IPython.display import display

    display(verdict)
