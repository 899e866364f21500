"""Verdicts on variables of a notebook or script: each under a condition, which forged measurements must make false.

A notebook or script measures, and gives the verdict on a claim of the ``claims.yml`` beside it::

    judge("C-1", "reproduced", "The two outputs differ by at most 2e-5.",
          when=lambda gap: gap < 2e-5, turned_by={"gap": 1e-3})

The parameters of ``when`` are its variables, by name. Each entry of ``turned_by`` is a counterfeit: a value of one
variable that alone must turn the verdict. All are tried whenever the cell runs.
"""

import ast
import inspect
import linecache
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from claims_kit import ledger
from claims_kit.ledger import MIME, NAME, TURNED, BadLedger, Claim, Verdict

collected: list[dict] | None = None  # where a run of :mod:`claims_kit.runs` takes verdicts, and none is shown


def judge(
    claim: str, outcome: str, evidence: str, *, more: str = "", when: Callable, turned_by: Mapping[str, object]
) -> None:
    """Give the verdict on a claim; a notebook shows it, a script prints it.

    ``outcome`` is one of :data:`claims_kit.MEANINGS`; ``evidence`` is a sentence, ``more`` what else was computed.
    ``when`` is the condition, a function of variables of the notebook or script, and ``turned_by`` has for each that
    decides a value that alone makes it false. Refused is a claim or an outcome that does not exist, a condition that
    does not hold, and a counterfeit that does not turn it.
    """
    try:
        known, verdict = judged(Verdict(claim, outcome, evidence, more), when, turned_by)
    except Exception as error:  # of this verdict alone: the file goes on to the next one
        if collected is None:
            raise
        ours = isinstance(error, AssertionError | BadLedger)  # and names the claim
        collected.append({"id": claim, "error": str(error) if ours else f"{claim}: {type(error).__name__}: {error}"})
        return
    if collected is not None:
        unforged = [name for name in measured(when) if name not in turned_by]
        collected.append({**asdict(verdict), "unforged": unforged})
    elif (ipython := sys.modules.get("IPython")) and ipython.get_ipython():
        ipython.display.display(bundle(verdict, explain(known, verdict)), raw=True)
    else:
        print(f"{claim} {outcome}: {evidence}")


def judged(given: Verdict, when: Callable, turned_by: Mapping[str, object]) -> tuple[Claim, Verdict]:
    """Return a claim of the ledger beside the condition's file, or of this folder, and the verdict with its condition.

    The condition holds, and each counterfeit turns it.
    """
    tried(f"{given.id}: {given.outcome!r}", when, turned_by)
    place = Path(when.__code__.co_filename)
    file = next((f for f in (place.with_name(NAME), Path(NAME)) if f.is_file()), Path(NAME))
    where = f"{place.name}:{when.__code__.co_firstlineno}"
    known = ledger.find(ledger.load(file)[1], given.id, given.outcome)
    return known, replace(given, condition=source(when, turned_by), where=where)


def tried(what: str, when: Callable, turned_by: Mapping[str, object], *, ours: bool = True) -> bool | None:
    """Return whether a condition holds, ``None`` where it cannot be told, having tried its counterfeits.

    With measurements that are not ``ours`` but a reader's, a condition may fail, and no counterfeit is tried.
    """
    values = measured(when)
    found = when(**values)
    holds = None if found is None or bool(found != found) else bool(found)  # noqa: PLR0124 - nan
    if not ours:
        return holds
    if not holds:
        raise AssertionError(f"{what} does not follow: {source(when)} is {found}; {said(values)}")
    passing = [name for name, value in turned_by.items() if name not in values or when(**values | {name: value})]
    if passing or not turned_by:
        raise AssertionError(f"{what} cannot fail by {', '.join(passing) or 'anything'}")
    return True


def measured(when: Callable) -> dict[str, object]:
    """Return the variables that are the parameters of a condition, by name."""
    if not inspect.isfunction(when):
        raise TypeError(f"`when` must be a function of variables, as `lambda gap: gap < 1` is; it is {when!r}")
    names = inspect.signature(when).parameters
    if missing := [name for name in names if name not in when.__globals__]:
        raise NameError(f"no variable of the page is called {', '.join(missing)}")
    return {name: when.__globals__[name] for name in names}


def source(when: Callable, turned_by: Mapping[str, object] | None = None) -> str:
    """Write a condition, and in a line each what would turn it, as the code does that holds it."""
    place = when.__code__
    cell = ast.parse("".join(linecache.getlines(place.co_filename)))
    calls = (node for node in ast.walk(cell) if isinstance(node, ast.Call))
    turns, condition = {name: said({name: value}) for name, value in (turned_by or {}).items()}, when.__name__
    for options in ({keyword.arg: keyword.value for keyword in call.keywords} for call in calls):
        written, forged = options.get("when"), options.get("turned_by")
        if isinstance(written, ast.Lambda) and written.lineno == place.co_firstlineno:
            condition = ast.unparse(written.body)
            if turned_by and isinstance(forged, ast.Dict) and all(isinstance(k, ast.Constant) for k in forged.keys):
                turns = {k.value: f"{k.value} = {ast.unparse(v)}" for k, v in zip(forged.keys, forged.values)}
            break
    return "\n".join([condition, *(f"{TURNED}{turn}" for turn in turns.values())])


def said(values: Mapping[str, object]) -> str:
    """Write the values of variables in a line, numbers with three digits.

    >>> said({"gap": 0.12345, "shares": [0.5, 0.25], "seeds": 3})
    'gap = 0.123, shares = [0.5 0.25], seeds = 3'
    """
    return ", ".join(f"{name} = {short(value)}" for name, value in values.items())


def short(value: object) -> str:
    """Write a value as short as its size can be seen: a number, or the first eight of some.

    >>> short((1.23456, "a")), short(list(range(20)))
    ("[1.23 'a']", '[0 1 2 3 4 5 6 7 ...]')
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return f"[{' '.join([short(each) for each in value[:8]] + ['...'] * (len(value) > 8))}]"
    return reprlib.repr(value)


def bundle(verdict: Verdict, explained: str) -> dict:
    """Return a verdict as a notebook's output: plain text, Markdown, and data."""
    plain = f"{verdict.id} {verdict.outcome}: {verdict.evidence}"
    data = {name: said for name, said in asdict(verdict).items() if name != "where"}
    return {"text/plain": plain, "text/markdown": explained, MIME: data}


def explain(
    claim: Claim, verdict: Verdict, *, place: str = "", formulas: Callable = str, numbers: Callable = str
) -> str:
    """Say in Markdown what the paper says, what was found, and what the verdict rests on.

    ``place`` may word the ledger's place; ``formulas`` and ``numbers`` set the claim and what was found.
    """
    parts = [
        f"**{verdict.id} · {verdict.outcome}** · {place or claim.place}",
        f"*The document says:* {formulas(claim.claim)}" + (f" “{claim.quote}”" if claim.quote else ""),
        f"*We found:* {numbers(verdict.evidence)}",
        f"*Why it matters:* {claim.matters}" if claim.matters else "",
        f"*In detail:* {numbers(verdict.more)}" if verdict.more else "",
        f"*The verdict rests on:*\n\n```python\n{verdict.condition}\n```" if verdict.condition else "",
    ]
    return "\n\n".join(filter(None, parts))
