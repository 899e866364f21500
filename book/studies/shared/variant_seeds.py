"""Three seeds of the variant classifier: how well they do, their training, and the same measures in each.

A seed is another simulation of sequences around the same lineages, another order and another initialisation. Seed 0
is the bundled one.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from analysis.statistics.intervals import share_interval
from book.lab.dna.simulate import invent_backbones
from book.publish.records import Experiment, Result, Value
from book.studies.shared import variant_columns, variant_measures, variant_runs

SEEDS = (0, 1, 2)
KEPT = (
    "first_failing",
    "D_sum",
    "D_total",
    "cone",
    "cone_bare",
    "cosine",
    "largest",
    "stable_rank",
    "entropy",
    "growth",
    "grown",
    "gates",
    "padded_cone",
    "padded_cosine",
    "padded_D_sum",
)
MOST = 96
TRACED = ("loss", "step", "validation", "cone", "resultant", "entropy", "gates")


def one(seed: int, device: torch.device) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Evaluate and measure the classifier of one seed; train it if it is not there."""
    return measure_folder(variant_runs.find_run(f"seed{seed}", seed, device=device), seed, device)


def measure_folder(
    folder: Path, seed: int, device: torch.device | str = "cpu"
) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Evaluate and measure a trained classifier on the sets of that seed."""
    run = variant_measures.open_run(folder, device=device)
    values, counts = score_run(run, seed)
    measured, found, _ = variant_measures.measure_run(run, 1, most=MOST, control=False)
    arrays = {name: measured[name] for name in KEPT} | {"maps": variant_measures.largest_values(run.model)}
    arrays["enriched"] = variant_columns.by_sequence(measured["profile"], measured["profile_marks"])
    arrays["confusion"] = counts.astype(np.int32)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        arrays |= {f"trace_{name}": trace[name].astype(np.float32) for name in TRACED}
    return values | found, arrays


def score_run(run: variant_measures.Run, seed: int) -> tuple[dict[str, Value], np.ndarray]:
    """Score a classifier on whole parts, on the sets of a seed and on exchanged deletions; also count confusions."""
    backbones, values = invent_backbones(0), {}
    for name in ("validation", "test"):
        size = len(getattr(run.data.parts, name))
        share = share_interval(round(run.card[name] * size), size)
        values[f"whole_{name}"] = Value(share.value, 0.01, share.low, share.high, size)
    counts = variant_runs.confuse_all(run.model, run.data, variant_runs.make_sets(run.data, backbones, seed))
    values |= {name.replace(" ", "_"): accuracy_value(table) for name, table in zip(variant_runs.SETS, counts)}
    return values | variant_runs.follow(run.model, run.data, backbones), counts


def compute(device: torch.device) -> Result:
    """Put the three seeds side by side: values with the seed after their name, arrays with the seed first."""
    values, arrays = {}, {}
    for seed in SEEDS:
        of_seed, found = one(seed, device)
        values |= {f"{name}_{seed}": value for name, value in of_seed.items()}
        for name, array in found.items():
            arrays.setdefault(name, []).append(array)
    stacked = {name: np.stack(rows) for name, rows in arrays.items()}
    return Result(values, stacked, tolerances(stacked))


def tolerances(arrays: Iterable[str]) -> dict[str, float]:
    """Say how far each array may differ on another machine."""
    special = {"confusion": 2, "enriched": 0.3}
    return {
        name: 1e-3 if name.startswith("trace_") else special.get(name, variant_measures.tolerance(name))
        for name in arrays
    }


def accuracy_value(counts: np.ndarray) -> Value:
    """Turn a table of confusions into the share on its diagonal, with the exact interval."""
    share = share_interval(int(np.trace(counts)), int(counts.sum()))
    return Value(share.value, 0.01, share.low, share.high, int(counts.sum()))


EXPERIMENT = Experiment(
    models=("variant-bert-mini",),
    compute=compute,
    minutes=30,
    seed=SEEDS[-1],
    summary="Three seeds of the variant classifier: accuracy by split, training, the measures on 8 sequences",
)
