"""The variant classifier when sequences, sub-clades or whole lineages are kept apart, simple classifiers beside it.

All learn from the same training part and are scored on the same test part, once. The gene is the invented one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from book.lab.dna.baselines import hits
from book.lab.dna.simulate import Backbone, invent_backbones
from book.lab.dna.splits import unit_names
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value
from book.studies.shared import variant_measures, variant_runs
from book.studies.shared.variant_baselines import fitted, score

BASELINES = ("majority", "length", "phase", "nearest", "kmers", "kmers-gapped")
RUNS = {"sequence": "seed0", "clade": "by-clade", "lineage": "by-lineage"}
"""Folders of the trained classifiers by what is kept apart; parted by sequence it is the bundled one."""


def score_run(
    folder: Path, backbones: Sequence[Backbone], lineages: Path | None = None, device: torch.device | str = "cpu"
) -> tuple[dict[str, Value], np.ndarray]:
    """Score a trained classifier and the baselines on its own parts.

    Parameters
    ----------
    backbones
        What its sequences were simulated around.
    lineages
        The folder that these were read from, if they are real.

    Returns
    -------
    tuple
        Values, and how often each class of the test part is named as each, ``(class, named)``.
    """
    run = variant_measures.open_run(folder, lineages, device)
    train, validation, test = (
        [run.data.genes[i] for i in part]
        for part in (run.data.parts.train, run.data.parts.validation, run.data.parts.test)
    )
    by = run.card["recipe"]["by"]
    groups = unit_names(test, by)
    probabilities = dna_classifier.predict(run.model, run.data.tokenizer, [gene.bases for gene in test])
    right = np.array([run.data.labels[i] == gene.label for i, gene in zip(probabilities.argmax(-1).tolist(), test)])
    values = {
        "bert": replace(score("bert", right, groups), tolerance=0.01),
        "validation": Value(run.card["validation"], 0.01, n=len(validation)),
        "train": Value(len(train)),
        "units": Value(len(set(groups)), n=len(test)),
    }
    values |= {name: score(name, hits(fitted(name, train, validation), test), groups) for name in BASELINES}
    values |= variant_runs.follow(run.model, run.data, backbones)
    return values, variant_runs.tally(run.data, test, probabilities)


def score_all(
    runs: Mapping[str, str],
    recipe: dna_classifier.Recipe,
    backbones: Sequence[Backbone],
    device: torch.device | str = "cpu",
    lineages: Path | None = None,
) -> Result:
    """Score a classifier for each way to part, training those that are not there; values as ``name/part``."""
    values, tables = {}, []
    for by, name in runs.items():
        run = variant_runs.find_run(name, recipe=replace(recipe, by=by), folder=lineages, device=device)
        found, counts = score_run(run, backbones, lineages, device)
        values |= {f"{what}/{by}": value for what, value in found.items()}
        tables.append(counts)
    return Result(
        values, {"confusion": np.stack(tables).astype(np.int32), "parts": np.array(list(runs))}, {"confusion": 2}
    )


def compute(device: torch.device) -> Result:
    """Score seed 0, parted in three ways, around the invented gene."""
    return score_all(RUNS, dna_classifier.MINI, invent_backbones(0), device=device)


EXPERIMENT = Experiment(
    models=("variant-bert-mini",),
    compute=compute,
    minutes=16,
    seed=0,
    summary="The variant classifier parted by sequence, by sub-clade and by lineage, baselines on the same parts",
)
