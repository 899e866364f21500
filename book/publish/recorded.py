"""The record of a chapter, ``book/recorded/<chapter>.json``: what it showed, and when an execution agrees with it.

The numbers that the page's text shows stand there by name, a line each, and what the cells printed, a line an output.
A run agrees with the record on every machine and device by one rule, :func:`agree`. A count and a word may not differ,
unless the cell's tags mark its counts as counts over a threshold. A rounding error has no digit that another machine
would find again, so it is not recorded.
"""

import ast
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from analysis.core.files import write_atomically

NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?( ?%)?")
GLUE = re.compile(r"\{glue:text\}`([\w-]+)(?::([^`]*))?`")
BORROWED = re.compile(r"\{number\}`([\w-]+)/([\w-]+)(?::([^`]*))?`")  # by a story, of the evidence page of that name
SHARE = 1e-3  # of itself, by which a number may differ
ROUNDING = {"float32": 1e-6, "float64": 1e-13}  # of the largest number of the cell, by which one may differ
COUNTED = 2e-2  # of itself, by which a count over a threshold may differ, and by one
NOISE = 1e-9  # what is smaller is rounding error, and shown as a bound
SLACK = 1.001  # so that a difference of just one unit is one unit in floating point, too


def formats(markdown: str) -> dict[str, set[str]]:
    """Return the glued names that a page's text shows, each with the formats in which it shows them.

    >>> formats("From {glue:text}`a-low:.1f` to {glue:text}`a-high`, or {glue:text}`a-low`.") == {
    ...     "a-low": {".1f", ""}, "a-high": {""}}
    True
    """
    found: dict[str, set[str]] = {}
    for name, spec in GLUE.findall(markdown):
        found.setdefault(name, set()).add(spec)
    return found


def shown(page: Path) -> dict[str, set[str]]:
    """Return :func:`formats` of a page; of a page of evidence, with the numbers that stories borrow from it."""
    found = formats(page.read_text(encoding="utf-8"))
    if page.parent.name == "evidence":
        for story in sorted(page.parents[1].glob("*.md")):
            for evidence, name, spec in BORROWED.findall(story.read_text(encoding="utf-8")):
                if evidence == page.stem:
                    found.setdefault(name, set()).add(spec)
    return found


def printed_unit(value: float, spec: str, digits: int = 3) -> float:
    """Return one unit of the last digit of ``value`` printed by ``spec``, of at most so many significant ones.

    >>> printed_unit(0.361, ".1%"), printed_unit(0.361, ".2f"), printed_unit(1230.0, "")
    (0.001, 0.01, 10.0)
    """
    printed = NUMBER.search(format(value, spec).replace(",", ""))
    if printed is None or not math.isfinite(value) or not value:
        return 0.0
    unit = _unit(printed) / (100 if printed[3] else 1)
    return max(unit, 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1))


def _unit(number: re.Match) -> float:
    return 10.0 ** (int(number[2] or 0) - len(number[1] or ""))


def agree(found: float, recorded: float, unit: float, floor: float = 0.0) -> bool:
    """Say whether two machines may find these two values of one quantity.

    They may where the two differ by at most a unit of the last digit that is printed, by a thousandth, or by
    ``floor``, which is rounding for the dtype and the scale of the cell.

    >>> agree(2.36, 2.35, unit=0.01), agree(2.37, 2.35, unit=0.01), agree(4.8e-7, 3.9e-7, unit=1e-8, floor=1e-6)
    (True, False, True)
    """
    return found == recorded or abs(found - recorded) <= max(SLACK * unit, SHARE * abs(recorded), floor)


def same(found: object, recorded: object, specs: set[str]) -> bool:
    """Say whether a glued value may stand for the recorded one on a page that prints it by ``specs``.

    >>> same(2.36, 2.35, {".2f"}), same(2.38, 2.35, {".2f"}), same(12, 11, {""}), same("0.5 nats", "0.6 nats", {""})
    (True, False, False, True)
    """
    if isinstance(found, str) and isinstance(recorded, str):
        return settle(found, recorded) == recorded
    if type(found) is not type(recorded):
        return False
    if not isinstance(found, float):
        return found == recorded
    unit = min((printed_unit(recorded, spec) for spec in specs or {""}), default=0.0)
    return agree(found, recorded, unit)


def differences(found: Mapping, recorded: Mapping, shown: Mapping[str, set[str]]) -> list[str]:
    """Name each glued value that the record has otherwise or not at all, with what was recorded and what was found."""
    return [
        f"{name}: recorded {json.dumps(recorded[name])}, found {json.dumps(value)}"
        if name in recorded
        else f"{name}: not recorded, found {json.dumps(value)}"
        for name, value in found.items()
        if name not in recorded or not same(value, recorded[name], shown.get(name, set()))
    ]


def settle(text: str, recorded: str, tags: Collection[str] = (), scale: float = 0.0) -> str:
    """Return the text with those of its numbers as recorded that another machine may have made otherwise.

    Of a cell's ``tags`` two count: ``float64`` says in what its numbers are computed, if not in float32, and
    ``counts-over-a-threshold`` that its whole numbers are such. ``scale`` is :func:`largest` of the cell.

    >>> settle("gap 4.8e-07 of 1.5, rank 4", "gap 3.9e-07 of 1.5, rank 3", scale=1.5)
    'gap 3.9e-07 of 1.5, rank 4'
    """
    numbers, targets = list(NUMBER.finditer(text)), list(NUMBER.finditer(recorded))
    if NUMBER.sub("#", text) != NUMBER.sub("#", recorded):
        return text
    floor = scale * ROUNDING["float64" if "float64" in tags else "float32"]
    pieces, at = [], 0
    for mine, theirs in zip(numbers, targets, strict=True):
        number, target = (float(n[0].rstrip(" %")) for n in (mine, theirs))
        if any(theirs.groups()):
            near = bool(mine[3]) == bool(theirs[3]) and agree(number, target, _unit(theirs), floor)
        else:
            near = "counts-over-a-threshold" in tags and abs(number - target) <= max(1, COUNTED * abs(target))
        pieces += [text[at : mine.start()], theirs[0] if near else mine[0]]
        at = mine.end()
    return "".join([*pieces, text[at:]])


def largest(texts: Iterable[str]) -> float:
    """Return the size of the largest number of the texts that is no count; 0 if there is none.

    >>> largest(["12 heads, off by -0.5 and 1e-7", "0.7 %"])
    0.7
    """
    return max(
        (abs(float(n[0].rstrip(" %"))) for text in texts for n in NUMBER.finditer(text) if n[1] or n[2]), default=0.0
    )


def noise(text: str) -> list[str]:
    """Return the printed rounding errors: numbers below 1e-9 that are no bound, which is a power of ten.

    >>> noise("off by 3.1e-16, which is below 1e-12 and above -1e-12; 2.5e-07 of it")
    ['3.1e-16']
    """
    return [
        n[0]
        for n in NUMBER.finditer(text)
        if n[2] and 0 < abs(float(n[0].rstrip(" %"))) < NOISE and not re.match(r"-?10*[eE]", n[0])
    ]


def value(printed: str) -> object:
    """Return the value that was glued, of its text: a number or a string; what is neither stays as it was printed.

    >>> value("0.361"), value("'two of three'"), value("nan")
    (0.361, 'two of three', 'nan')
    """
    try:
        return ast.literal_eval(printed)
    except (ValueError, SyntaxError):
        return printed


def read(path: Path) -> dict:
    """Read a record, ``{"numbers": {name: value}, "cells": [{"source": ..., "outputs": [...]}]}``; empty if absent."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"numbers": {}, "cells": []}


def write(path: Path, numbers: Mapping[str, object], cells: list[dict], shown: Mapping[str, set[str]]) -> None:
    """Write a record with a line for each number and for each output, so that a changed one is one line of a diff.

    What agrees with the record that is there stays as it was: the last digits of another machine are no change.
    """
    old = read(path)
    lines = []
    for name, found in sorted(numbers.items()):
        past = old["numbers"].get(name)
        kept = past if name in old["numbers"] and same(found, past, shown.get(name, set())) else found
        lines.append(f"{json.dumps(name)}: {json.dumps(kept, ensure_ascii=False)}")
    before = {cell["source"]: cell["outputs"] for cell in old["cells"]}
    entries = [_entry(cell, before.get(cell["source"], [])) for cell in cells]
    text = '{"numbers": {\n' + ",\n".join(lines) + '\n},\n"cells": [\n' + ",\n".join(entries) + "\n]}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def _entry(cell: dict, past: list[dict]) -> str:
    texts = [json.dumps(out, ensure_ascii=False) for out in cell["outputs"]]
    if len(texts) == len(past):
        old = [json.dumps(out, ensure_ascii=False) for out in past]
        texts = [settle(text, other, scale=largest(old)) for text, other in zip(texts, old, strict=True)]
    outputs = ",".join(f"\n  {text}" for text in texts)
    return f'{{"source": {json.dumps(cell["source"], ensure_ascii=False)}, "outputs": [{outputs}]}}'
