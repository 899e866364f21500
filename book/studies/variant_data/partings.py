"""What deletions give away, how accurate classifiers are, and the trainings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from analysis.maps.gates import GATES
from book.lab.training.masked_kmers import SHARE
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value

# ---- What deletions give away, and how accurate classifiers are where training and test are kept apart

CLASSIFIERS = {
    "majority": "majority",
    "length": "length",
    "phase": "phase",
    "nearest": "nearest lineage",
    "kmers": "words",
    "kmers-gapped": "words, gaps kept",
    "bert": "BERT",
}
"""The classifiers by their names in the records, as the page calls them."""
Shares = Mapping[str, float]
Named = Mapping[str, Value]
"""How often the class of the bases and that of the deletions is named, with intervals."""


@dataclass(frozen=True)
class Leak:
    """What deletions give away: the phase of each class's words along the gene, and the lengths of its sequences."""

    classes: list[str]
    phases: Int[np.ndarray, "class word"]
    lengths: list[int]
    length_counts: Int[np.ndarray, "class length"]


class Parting(NamedTuple):
    """Test accuracies with one thing kept apart: BERT's, with its lower bound, and those of simple classifiers."""

    kept_apart: str
    training: int
    test: int
    units: int
    bert: float
    least: float
    words: float
    nearest: float
    length: float
    phase: float


@dataclass(frozen=True)
class Partings(Numbers):
    """All ways to keep training and test apart: accuracies with intervals, and what is named after an exchange.

    ``exchanged`` has, by what is kept apart, how often the class of the bases and that of the deletions is named.
    """

    length: str
    phase: str
    table: tuple[Parting, ...]
    accuracies: Mapping[str, Sequence[tuple[float, float, float]]]
    exchanged: Mapping[str, Named]
    one_per_class: str  # accuracy of words from one training sequence per class

    @property
    def kept_apart(self) -> list[str]:
        """Name what is kept apart, one parting after the other."""
        return [row.kept_apart for row in self.table]


def measure_leak(baselines: Record) -> Leak:
    """Return the phases and the lengths of each class."""
    return Leak(
        baselines.array("classes").tolist(),
        baselines.array("phases"),
        baselines.array("lengths").tolist(),
        baselines.array("length_counts"),
    )


def measure_partings(splits: Record, baselines: Record) -> Partings:
    """Compare BERT with simple classifiers on the same parts, kept apart in three ways."""
    table = tabulate(splits)
    accuracies = {
        shown: [interval(splits.values[f"{name}/{row.kept_apart}"]) for row in table]
        for name, shown in CLASSIFIERS.items()
    }
    return Partings(
        length=percent(table[0].length),
        phase=percent(table[0].phase),
        table=table,
        accuracies=accuracies,
        exchanged=exchanged_by_parting(splits),
        one_per_class=f"{baselines['kmers/one-a-class']:.3f}",
    )


def tabulate(splits: Record) -> tuple[Parting, ...]:
    """Return a row of accuracies for each way to keep training and test apart."""
    names = ("train", "units", "bert", "kmers", "nearest", "length", "phase")
    rows = []
    for kept_apart in splits.array("parts").tolist():
        training, units, bert, *simple = (splits.values[f"{name}/{kept_apart}"] for name in names)
        rows.append(
            Parting(
                kept_apart, training.value, bert.n, units.value, bert.value, bert.low, *(each.value for each in simple)
            )
        )
    return tuple(rows)


def interval(value: Value) -> tuple[float, float, float]:
    """Return a recorded value with the bounds of its interval."""
    return value.value, value.low, value.high


def exchanged_by_parting(splits: Record) -> dict[str, Named]:
    """Say how often the class of the bases and that of the deletions is named, by what is kept apart."""
    return {
        kept_apart: {part: splits.values[f"exchanged_{part}/{kept_apart}"] for part in ("bases", "deletions")}
        for kept_apart in splits.array("parts").tolist()
    }


# ---- The classifier trained around real lineages, and what it says of sequences that were openly deposited


@dataclass(frozen=True)
class RealLineages(Numbers):
    """The classifier trained around real lineages; ``deposited`` are sequences that were openly deposited."""

    open_right: int
    real_units: int
    real_lineage: str
    real_least: str
    real_follow: str
    real_rest: str
    test: Value
    deposited: Value
    simple: Shares
    table: tuple[Parting, ...]
    exchanged: Mapping[str, Named]


def measure_real(records: Mapping[str, Record]) -> RealLineages:
    """Return what the classifier that was trained around real lineages names, and what simple ones do."""
    real, splits, baselines = records["real"], records["real-splits"], records["baselines-real"]
    by_lineage, deposited, exchanged = splits.values["bert/lineage"], real.values["open"], exchanged_by_parting(splits)
    return RealLineages(
        open_right=round(deposited.value * deposited.n),
        real_units=splits["units/lineage"],
        real_lineage=percent(by_lineage.value, 1),
        real_least=percent(by_lineage.low, 1),
        real_follow=" and ".join(percent(share["deletions"].value) for share in exchanged.values()),
        real_rest=" and ".join(
            percent(1 - sum(named.value for named in share.values())) for share in exchanged.values()
        ),
        test=real.values["whole_test"],
        deposited=deposited,
        simple={name: baselines[f"{name}/open"] for name in ("kmers", "nearest", "length")},
        table=tabulate(splits),
        exchanged=exchanged,
    )


# ---- The trainings: three seeds from random weights, and one after hidden words were guessed


@dataclass(frozen=True)
class Training(Numbers):
    """The training of three seeds, and their accuracies on the whole validation and test parts."""

    whole_test: str
    losses: Float[np.ndarray, "seed update"]
    steps: Float[np.ndarray, "seed look"]
    validation_curves: Float[np.ndarray, "seed look"]
    validation: tuple[Value, ...]
    test: tuple[Value, ...]
    test_share: Value


@dataclass(frozen=True)
class Pretraining(Numbers):
    """The classifier that was pre-trained on hidden words, beside three seeds that were not and the control.

    ``loss`` is that of the hidden words in nats. ``curves`` has in each panel a curve ``(sequence, layer)`` a model,
    in per cent, or ``(layer,)`` where there is one value only. ``gates`` has the means over sequences.
    """

    updates: int
    hidden: str
    before: str
    before_control: str
    top: str
    top_seeds: str
    loss: Float[np.ndarray, " update"]
    test: Value
    exchanged: Shares
    curves: Mapping[str, Mapping[str, np.ndarray]]
    gates: Mapping[str, Float[np.ndarray, "seed layer head gate"]]


def measure_training(seeds: Record) -> Training:
    """Return the training of three seeds; their accuracy is that over all their test sequences."""
    validation, test = (
        tuple(seeds.values[f"whole_{part}_{seed}"] for seed in range(3)) for part in ("validation", "test")
    )
    count = sum(each.n for each in test)
    share = sum(each.value * each.n for each in test) / count
    return Training(
        whole_test=percent(share, 1),
        losses=seeds.array("trace_loss"),
        steps=seeds.array("trace_step"),
        validation_curves=seeds.array("trace_validation"),
        validation=validation,
        test=test,
        test_share=Value(share, n=count),
    )


def measure_pretraining(records: Mapping[str, Record], classes: int) -> Pretraining:
    """Compare the gates of the pre-trained classifier with those of three seeds without, and with the control."""
    pretrained, seeds, controls = records["pretraining"], records["seeds"], records["measures"]
    directional = GATES.index("directional")
    before = pretrained.array("trace_gates")[0][:, directional]
    top = seeds.array("gates")[:, :, -1, :, directional]
    return Pretraining(
        updates=pretrained["updates"],
        hidden=percent(SHARE),
        before=percent(before.mean(), 1),
        before_control=percent(controls.array("control_gates")[..., directional].mean(), 1),
        top=percent(pretrained.array("gates")[:, -1, :, directional].mean()),
        top_seeds=", ".join(percent(shares.mean()) for shares in top),
        loss=pretrained.array("pretrain_loss"),
        test=pretrained.values["whole_test"],
        exchanged={part: pretrained[f"exchanged_{part}"] for part in ("bases", "deletions")},
        curves=compare_layers(records, classes),
        gates={
            "pre-trained": pretrained.array("gates").mean(0)[None],
            "three seeds, not": seeds.array("gates").mean(1),
            "control": controls.array("control_gates").mean(0)[None],
        },
    )


def compare_layers(records: Mapping[str, Record], classes: int) -> dict[str, dict[str, np.ndarray]]:
    """Return gate shares and the entropy that rows lack, by layer, of all models: a panel each, in per cent."""
    gates, entropy = (average_heads(records, measured, classes) for measured in ("gates", "entropy"))
    panels = {
        name: {model: 100 * shares[..., GATES.index(name)] for model, shares in gates.items()}
        for name in ("directional", "cluster")
    }
    return panels | {"missing entropy": {model: 100 * (1 - relative) for model, relative in entropy.items()}}


def average_heads(records: Mapping[str, Record], measured: str, classes: int) -> dict[str, np.ndarray]:
    """Return what was measured in each model, ``(sequence, layer, ...)``, as means over heads.

    Of the pre-trained encoder before the classes only the mean over sequences was recorded, ``(layer, ...)``.
    """
    pretrained, control = records["pretraining"], records["measures"].array(f"control_{measured}")
    by_head = {
        "pre-trained": pretrained.array(measured),
        **{f"seed {seed}": values for seed, values in enumerate(records["seeds"].array(measured))},
        "control": control[:: len(control) // classes],
    }  # the first sequence of each class
    return {
        **{model: values.mean(2) for model, values in by_head.items()},
        "before the classes": pretrained.array(f"trace_{measured}")[0],
    }
