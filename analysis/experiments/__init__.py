"""Experiments: what is recorded because it needs a model, a GPU or minutes.

``NAMES`` lists them; ``semi-bias-gpt2`` lives in ``semi_bias_gpt2.py`` as ``EXPERIMENT``. A chapter calls
:func:`live_or_record`.
"""

from collections.abc import Callable
from importlib import import_module

from analysis import asked
from analysis.core import device
from analysis.surveys import records

NAMES: tuple[str, ...] = (
    "induction-training",
    "dial-gpt2",
    "spectra-gpt2",
    "pattern-costs",
    "patterns-equality-gpt2",
    "output-projection-survey",
    "semi-bias-gpt2",
    "gpt2-mini-emergence",
    "semi-bias-token-counts",
    "normality-minilm",
    "census-minilm", "census-ablation", "census-bias", "census-cost", "census-reader",
    "stream-minilm",
    "variant-baselines", "variant-baselines-real", "variant-base",
    "capture-cost", "one-score-gpt2",
    "variant-measures", "variant-seeds", "variant-controls", "variant-real",
    "variant-splits", "variant-real-splits", "variant-pretraining",
    "peers",
)
AWAITED: dict[str, str] = {"variant-base": "a GPU"}
"""Experiments without a record, and what they wait for."""


def find(name: str) -> records.Experiment:
    """Return the experiment of that name; refuse an unknown one, naming those that are known."""
    if name not in NAMES:
        raise LookupError(f"unknown experiment {name!r}; known: {', '.join(sorted(NAMES))}")
    return import_module(f"analysis.experiments.{name.replace('-', '_')}").EXPERIMENT


def live_or_record(name: str, *, recompute: bool | None = None, elsewhere: Callable[[], records.Result] | None = None,
                   ) -> tuple[records.Record | records.Result, str]:
    """Give a chapter its recorded numbers, recomputing them first where the inputs are on this machine.

    An execution that was asked for with another model or other texts shows the record as it is.

    Returns
    -------
    tuple
        The record (whose numbers a page shows either way) and the sentence that says which of the two ran.

    Parameters
    ----------
    recompute
        ``False`` never recomputes (for what takes minutes); default: where inputs are present and it takes
        less than half a minute.
    elsewhere
        Computes the result for another model than the record's, where the execution was asked for one.

    Raises
    ------
    Disagrees
        If the recomputed numbers differ from the record beyond its tolerances.
    """
    record, spec = records.load(name), find(name)
    made = f"recorded on {record.provenance['device']} in {record.provenance['seconds']:.0f} s"
    if elsewhere is not None and asked.other_model():
        return elsewhere(), f"Computed just now with {asked.describe()}; the book shows {', '.join(spec.models)}."
    if asked.departs():
        return record, (f"Shown from the record {name} ({made}): its numbers belong to the book's own inputs, "
                        f"{', '.join(spec.models + spec.data) or 'computed from scratch'}, not to {asked.describe()}.")
    if absent := spec.missing():
        return record, f"Shown from the record {name} ({made}); recomputing it needs {', '.join(absent)}."
    if recompute is False or (recompute is None and spec.minutes > 0.5):
        return record, f"Shown from the record {name} ({made}); `{record.provenance['command']}` repeats it."
    records.compare(spec.compute(device.choose()), record)
    inputs = ", ".join(spec.models + spec.data) or "scratch"
    return record, f"Recomputed just now from {inputs}; agrees with the record {name}."
