"""What the chapter on the case study's data shows: the sequences themselves, and the records of all classifiers."""

from dataclasses import dataclass

from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.studies.shared import variant_measures
from book.studies.variant_data.corpus import Authors, Corpus, measure_authors, measure_corpus
from book.studies.variant_data.evidence import Evidence, measure_evidence
from book.studies.variant_data.partings import (
    Leak,
    Partings,
    Pretraining,
    RealLineages,
    Training,
    measure_leak,
    measure_partings,
    measure_pretraining,
    measure_real,
    measure_training,
)

MODEL = "variant-bert-mini"
RECORDS = {
    "baselines": "variant-baselines",
    "seeds": "variant-seeds",
    "real": "variant-data-real",
    "splits": "variant-data-splits",
    "pretraining": "variant-data-pretraining",
    "baselines-real": "variant-data-baselines-real",
    "real-splits": "variant-data-real-splits",
    "measures": "variant-measures",
    "balanced-swap": "variant-data-balanced-swap",
}
NAMED = tuple(RECORDS)[:5]
"""The records whose provenance the page prints; the others were made in the same runs."""


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows; ``sources`` says where its records come from."""

    prefix = "vdata"
    inputs: Inputs
    checkpoint: Checkpoint
    sources: tuple[str, ...]
    corpus: Corpus
    authors: Authors
    leak: Leak
    partings: Partings
    training: Training
    evidence: Evidence
    pretraining: Pretraining
    real: RealLineages


def measure(device: str = "auto") -> Measured:
    """Read the records of the classifiers, and make the sequences of the bundled one again."""
    inputs, checkpoint = choose_inputs(device=device), checkpoints.find(MODEL)
    shown = {name: live_or_record(record, inputs, recompute=False) for name, record in RECORDS.items()}
    records = {name: record for name, (record, _) in shown.items()}
    data = variant_measures.open_run(checkpoint.folder, device=inputs.device).data
    return Measured(
        inputs,
        checkpoint,
        tuple(shown[name][1] for name in NAMED),
        corpus=measure_corpus(data, inputs.device),
        authors=measure_authors(live_or_record("text-and-code-repository", inputs, recompute=False)[0]),
        leak=measure_leak(records["baselines"]),
        partings=measure_partings(records["splits"], records["baselines"]),
        training=measure_training(records["seeds"]),
        evidence=measure_evidence(records, data.labels),
        pretraining=measure_pretraining(records, len(data.labels)),
        real=measure_real(records),
    )
