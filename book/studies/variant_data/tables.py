"""The tables of the chapter on the case study's data, as frames whose index names the rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.maps.gates import GATES
from book.publish.records import Value
from book.studies.variant_data.evidence import Evidence
from book.studies.variant_data.partings import Named, Parting, Pretraining, RealLineages, Training

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
    """Return how often the class of the bases and that of the deletions is named, by classifier, with intervals."""
    shares = evidence.exchanged
    of_two = {
        **{f"BERT, seed {seed}": [share.bert[seed] for share in shares.values()] for seed in range(3)},
        "BERT, seed 0, most words of the bases": [_span(share.balanced) for share in shares.values()],
        "words": [_span(share.words) for share in shares.values()],
        "words, gaps kept": [_span(share.words_gapped) for share in shares.values()],
    }
    asked = [evidence.follow_sequences] * 3 + [
        getattr(shares["deletions"], name).n for name in ("balanced", "words", "words_gapped")
    ]
    rows = {
        name: {"sequences": count} | {f"the {what}": _phrase(*span) for what, span in zip(shares, spans, strict=True)}
        for (name, spans), count in zip(of_two.items(), asked, strict=True)
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("classifier, names the class of")


def swapped(by_parting: Mapping[str, Named]) -> pd.DataFrame:
    """Return the same of BERT, by what was kept apart in its training."""
    rows = {
        by: {"sequences": named["deletions"].n}
        | {f"the {part}": _phrase(*_span(named[part])) for part in ("deletions", "bases")}
        for by, named in by_parting.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kept apart")


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


def _span(value: Value) -> tuple[float, float, float]:
    return value.value, value.low, value.high


def _phrase(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def _numbered(rows: Sequence[Mapping[str, object]], name: str) -> pd.DataFrame:
    return pd.DataFrame(list(rows)).rename_axis(name)
