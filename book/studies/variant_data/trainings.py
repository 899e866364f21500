"""The trainings: three seeds from random weights, and one after hidden words were guessed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from analysis.maps.gates import GATES
from book.lab.training.masked_kmers import SHARE
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value
from book.studies.variant_data.partings import Shares


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
