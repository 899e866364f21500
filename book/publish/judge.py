"""What a page of evidence says of its own variables: numbers in its text, findings, and verdicts on claims.

A page measures in its cells. :func:`glue` hands values to the text, and :func:`judge` gives the verdict on a claim::

    publish.judge("B-04", "reproduced", "Our forward pass equals the library's in every hidden state to 2e-5.",
                  when=lambda order_gap: order_gap < 2e-5, turned_by={"order_gap": 1e-3})

The parameters of ``when`` are variables of the page, by name. Each entry of ``turned_by`` is a counterfeit: a value of
one variable that must turn the verdict, whatever the others are. It is tried whenever the page runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from book.publish import inputs, ledger, phrases
from book.publish.ledger import Verdict
from claims_kit import ledger as known
from claims_kit.judging import measured, said, source, tried

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

    Parameters and errors are those of :func:`claims_kit.judging.judge`; the claim stands in ``book/claims.yml``, and
    the evidence has at most 25 words. With a reader's model a condition that fails leaves a note.
    """
    words = ledger.words_of(known.find(ledger.claims(), claim, outcome))
    if holds := held(f"{claim}: {outcome!r}", when, turned_by):
        show(Verdict(claim, outcome, evidence, more, source(when, turned_by), words=words))
    else:
        # where nothing can be told, the variables may be the records of the book's own models
        values = {} if holds is None else measured(when)
        show(NotHere(claim, inputs.chosen().describe(), source(when), holds, values))


def finding(label: str, *, when: Callable, turned_by: Mapping[str, object]) -> None:
    """Hold a finding of the book to its numbers, as :func:`judge` holds a verdict; nothing is shown.

    The label is that of the finding in ``book/known_elsewhere.yml``, which stands in the text as ``{known}`label```.
    """
    held(label, when, turned_by)


def held(what: str, when: Callable, turned_by: Mapping[str, object]) -> bool | None:
    """Hold a condition to the page's variables; with a reader's model or texts it may fail."""
    return tried(what, when, turned_by, ours=not inputs.chosen().departs)


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
            return f"{book}With {inputs} its condition, {condition}, {fails}{values and f': {values}'}."

        values = said(self.values)
        plain = sentence(self.inputs, self.condition, values)
        marked = sentence(
            phrases.as_text(self.inputs), phrases.as_code(self.condition), values and phrases.as_code(values)
        )
        return {"text/plain": f"{self.id} not here: {plain}", "text/markdown": f"**{self.id} · not here.** {marked}"}


def show(verdict: Verdict | NotHere) -> None:
    """Display a verdict or the note in its place."""
    from IPython.display import display

    display(verdict)
