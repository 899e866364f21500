"""Experiments: what is recorded because it needs a model, a GPU or minutes; ``book/experiments`` computes it.

A file that defines ``EXPERIMENT`` is an experiment of its name, ``bert-similarity-ladder`` for
``bert_similarity_ladder.py``; one that defines ``EXPERIMENTS`` holds several by name.
A page calls :func:`live_or_record`.
"""

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from book.publish import records
from book.publish.inputs import Inputs

BOOK = Path(__file__).parents[1]
FILES, FOLDER = BOOK / "experiments", BOOK / "records"


@cache
def modules() -> dict[str, str]:
    """Return the experiments' names with the dotted names of their modules, read from the files."""
    return {name: f"book.experiments.{path.stem}" for path in sorted(FILES.glob("*.py")) for name in _names(path)}


def _names(path: Path) -> list[str]:
    """Name the experiments of a file, which is parsed and not imported."""
    assigned = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Assign)]
    defined = {ast.unparse(node.targets[0]): node.value for node in assigned}
    if isinstance(several := defined.get("EXPERIMENTS"), ast.Dict):
        return [ast.literal_eval(key) for key in several.keys if key]
    return [path.stem.replace("_", "-")] if "EXPERIMENT" in defined else []


def find(name: str) -> records.Experiment:
    """Return the experiment of that name; refuse an unknown one, naming those that are known."""
    if name not in modules():
        raise LookupError(f"unknown experiment {name!r}; known: {', '.join(sorted(modules()))}")
    module = import_module(modules()[name])
    found = module.EXPERIMENTS[name] if hasattr(module, "EXPERIMENTS") else module.EXPERIMENT
    return replace(found, name=name, command=f"python -m book record {name}")


def load(name: str) -> records.Record:
    """Read the book's record of an experiment; see :func:`book.publish.records.load`."""
    return records.load(name, FOLDER)


def live_or_record(
    name: str, inputs: Inputs, *, recompute: bool | None = None, elsewhere: Callable[[], records.Result] | None = None
) -> tuple[records.Record | records.Result, str]:
    """Give a chapter its recorded numbers, recomputing them first where the inputs are on this machine.

    An execution with another model or other texts shows the record as it is.

    Parameters
    ----------
    name
        The experiment.
    inputs
        What the chapter is executed with; the recomputation runs on its device.
    recompute
        ``False`` never recomputes (for what takes minutes); default: where inputs are present and it takes
        less than half a minute.
    elsewhere
        Computes the result for another model than the record's, where the execution has one.

    Returns
    -------
    tuple
        The record (whose numbers a page shows either way) and the sentence that says which of the two ran.
    """
    record, spec = load(name), find(name)
    origin = f"recorded on {record.provenance['device']} in {record.provenance['seconds']:.0f} s"
    if elsewhere is not None and inputs.other_model:
        return elsewhere(), f"Computed just now with {inputs.describe()}; the book shows {', '.join(spec.models)}."
    if inputs.departs:
        return record, (
            f"Shown from the record {name} ({origin}): its numbers belong to the book's own inputs, "
            f"{', '.join(spec.models + spec.data) or 'computed from scratch'}, not to {inputs.describe()}."
        )
    if absent := spec.missing():
        return record, f"Shown from the record {name} ({origin}); recomputing it needs {', '.join(absent)}."
    if recompute is False or (recompute is None and spec.minutes > 0.5):
        return record, f"Shown from the record {name} ({origin}); `{record.provenance['command']}` repeats it."
    records.compare(spec.compute(inputs.device), record)
    sources = ", ".join(spec.models + spec.data) or "scratch"
    return record, f"Recomputed just now from {sources}; agrees with the record {name}."
