"""Figures 2 to 13 and table 1 for the bundled variant classifier and its control, and what columns give to which words.

The sequences are of the test part, correctly classified, the same number of each class.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import Interval, mean_interval, rotations
from book.lab.classifier_survey import Run, choose, open_run, stack, survey
from book.lab.dna.fasta import Gene
from book.lab.marked_words import MARKS, MASSES, marks, profiles
from book.lab.training import dna_classifier
from book.lab.training.dna_classifier import Data
from book.publish.records import Experiment, Result, Value

PER_CLASS, MOST, SEED = 2, 160, 0
DRAWS = 10_000


def measure_run(
    run: Run,
    per_class: int,
    *,
    most: int | None = None,
    control: bool = True,
    pad_to: int | None = dna_classifier.POSITIONS,
) -> tuple[dict[str, np.ndarray], dict[str, Value], list[Gene]]:
    """Measure a classifier on correctly classified sequences, chosen among the first ``most`` of the test part.

    Returns
    -------
    tuple
        What :func:`measure_genes` returns, and the sequences.
    """
    genes = choose(run, per_class, most)
    return *measure_genes(run, genes, per_class, control=control, pad_to=pad_to), genes


def measure_genes(
    run: Run, genes: Sequence[Gene], per_class: int, *, control: bool = True, pad_to: int | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Value]]:
    """Measure a classifier and, if asked for, its control on sequences; the control's gates on one a class.

    Returns
    -------
    tuple
        Arrays, the control's after ``control_``, and the values of :func:`summarise`.
    """
    first = [i % per_class == 0 for i in range(len(genes))]
    some = [gene for gene, one in zip(genes, first) if one]
    trained = survey(run.model, run.data, genes, pad_to=pad_to)
    arrays, values = stack(trained), summarise(run.data, genes, trained)
    if control:
        plain = survey(run.control(), run.data, genes, read=first, pad_to=pad_to)
        arrays |= stack(plain, "control_")
        values |= summarise(run.data, some, [c for c, one in zip(plain, first) if one], "control_")
    return arrays | profiles(run.data, some, [t for t, one in zip(trained, first) if one]), values


def summarise(
    data: Data, genes: Sequence[Gene], measured: Sequence[Mapping[str, np.ndarray]], prefix: str = ""
) -> dict[str, Value]:
    """Say how much more attention marked k-mers get than all, over layers and heads, and how much chance gives them.

    For each mark and mass three values: the mean over sequences of the ratio with its interval, and the bounds between
    which 95 % of random turns of the marks (one per sequence) lie; nothing where fewer than two sequences have both
    marks and columns. Then the share of columns and of all attention on
    [CLS], and the share of k-mers that each mark is on.
    """
    rng, values = np.random.default_rng(0), {}
    marked = marks(data, genes)
    for mass in MASSES:
        by_token = [one[mass].mean(0) for one in measured]
        on_class = [weights[0] / weights.sum() for weights in by_token if weights.sum() > 0]
        if len(on_class) > 1:
            values[f"{prefix}{mass}_on_class"] = _value(mean_interval(on_class), len(on_class), 0.01)
        for kind in MARKS:
            turned = [
                rotations(weights[1:], m[kind])
                for weights, m in zip(by_token, marked)
                if m[kind].any() and weights[1:].sum() > 0
            ]
            if len(turned) < 2:
                continue
            name = f"{prefix}{mass}_{kind.replace(' ', '_')}"
            values[name] = _value(mean_interval([ratios[0] for ratios in turned]), len(turned), 0.05)
            chance = np.mean([ratios[rng.integers(len(ratios), size=DRAWS)] for ratios in turned], axis=0)
            for bound, share in (("low", 0.025), ("high", 0.975)):
                values[f"{name}_chance_{bound}"] = Value(float(np.quantile(chance, share)), 0.05, n=DRAWS)
    if not prefix:
        for kind in MARKS:
            values[f"tokens_{kind.replace(' ', '_')}"] = Value(
                float(np.mean([m[kind].mean() for m in marked])), 1e-9, n=len(genes)
            )
    return values


def _value(interval: Interval, n: int, tolerance: float) -> Value:
    return Value(interval.value, tolerance, interval.low, interval.high, n)


def tolerance(name: str) -> float:
    """Say how far an array may differ on another machine: float32 sums, rows and cells at the brink of a test."""
    name = name.removeprefix("control_").removeprefix("padded_")
    if name in ("first_failing", "bare_failing", "grown"):
        return 0.03
    if name.startswith("cone"):
        return 5.0  # in lengths of rows, of several thousand
    return {"gates": 0.02, "largest": 0.05, "histogram": 0.05, "stable_rank": 0.05}.get(name, 5e-3)


def compute(device: torch.device) -> Result:
    """Figures 2 to 13 and table 1 on 16 sequences that the variant classifier names rightly, control beside."""
    run = open_run(checkpoints.find("variant-bert-mini").folder, device=device)
    arrays, values, _ = measure_run(run, PER_CLASS, most=MOST)
    return Result(values, arrays, {name: tolerance(name) for name in arrays})


EXPERIMENT = Experiment(compute, models=("variant-bert-mini",), minutes=8, seed=SEED)
