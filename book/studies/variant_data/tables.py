"""The tables of the chapter on the case study's data, as frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.maps.gates import GATES
from book.publish.records import Value
from book.studies.variant_data.evidence import Evidence
from book.studies.variant_data.partings import Parting, Shares
from book.studies.variant_data.real_lineages import RealLineages
from book.studies.variant_data.trainings import Pretraining, Training

NAMES = {"bert": "BERT", "least": "at least", "nearest": "nearest lineage"}


def partings(table: Sequence[Parting]) -> pd.DataFrame:
    """Return test accuracies, a row for what is kept apart."""
    return pd.DataFrame(list(table)).set_index("kept_apart").rename_axis("kept apart").rename(columns=NAMES)


def seeds(training: Training) -> pd.DataFrame:
    """Return the accuracies of each seed on its whole validation and test part."""
    rows = zip(training.validation, training.test, strict=True)
    return _numbered(
        [
            {"validation": valid.value, "of": valid.n, "test": whole.value, "of ": whole.n, "at least": whole.low}
            for valid, whole in rows
        ],
        "seed",
    )


def exchanged(evidence: Evidence) -> pd.DataFrame:
    """Return how often the class of the bases and that of the deletions is named, by classifier."""
    rows = {
        f"the {what}": {
            **{f"BERT, seed {seed}": value for seed, value in enumerate(share.bert)},
            "words": share.words,
            "words, gaps kept": share.words_gapped,
        }
        for what, share in evidence.exchanged.items()
    }
    return pd.DataFrame(rows).T.rename_axis("names the class of")


def swapped(by_parting: Mapping[str, Shares]) -> pd.DataFrame:
    """Return the same of BERT, by what was kept apart in its training."""
    rows = {by: {"the deletions": share["deletions"], "the bases": share["bases"]} for by, share in by_parting.items()}
    return pd.DataFrame(rows).T.rename_axis("kept apart")


def largest_gates(pretraining: Pretraining) -> pd.DataFrame:
    """Return the largest share of a head that each gate carries, in per cent, by model."""
    shares = {
        model: 100 * values[..., : len(GATES)].reshape(-1, len(GATES)).max(0)
        for model, values in pretraining.gates.items()
    }
    return pd.DataFrame(shares, index=pd.Index(GATES, name="gate"))


def deposited(real: RealLineages) -> pd.DataFrame:
    """Return the accuracies of the classifier of real lineages, and of simple ones on deposited sequences."""

    def row(value: Value) -> dict[str, float]:
        return {"right": value.value, "low": value.low, "high": value.high}

    simple = {"kmers": "words", "nearest": "nearest lineage", "length": "length"}
    rows = {
        f"BERT, simulated test sequences ({real.test.n})": row(real.test),
        f"BERT, deposited sequences ({real.deposited.n})": row(real.deposited),
        **{f"{simple[name]}, deposited": {"right": share} for name, share in real.simple.items()},
    }
    return pd.DataFrame(rows).T.rename_axis("classifier")


def _numbered(rows: Sequence[Mapping[str, object]], name: str) -> pd.DataFrame:
    return pd.DataFrame(list(rows)).rename_axis(name)
