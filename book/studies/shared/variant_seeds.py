"""Where trained classifiers lie, how well they do, and three seeds of the variant classifier.

Folders are looked for in ``ANALYSIS_RUNS``, then in ``runs``; what is not there is trained.

A seed is another simulation of sequences around the same lineages, another order and another initialisation. Seed 0
is the bundled one.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.lab import dna_probe
from book.lab.dna.fasta import Gene
from book.lab.dna.phase import fill_letters, only_deletions, only_substitutions
from book.lab.dna.simulate import Backbone, invent_backbones, simulate
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value
from book.studies.shared import variant_columns, variant_measures
from book.studies.shared.variant_baselines import exchanged

# ---- Where trained classifiers lie, and how well they do: on what they know, on what is new, on half of the evidence

RUNS = "ANALYSIS_RUNS"
LOOKS = 5
FRESH = 48
"""Sequences of each set; accuracies over whole parts are on the card."""
SETS = ("test", "new clades", "far clades", "only substitutions", "only deletions")


def find_run(
    name: str,
    seed: int = 0,
    *,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    folder: Path | None = None,
    device: torch.device | str = "cpu",
    watch: bool = True,
) -> Path:
    """Return the folder of a trained classifier, ``ANALYSIS_RUNS/name`` or ``runs/name``; train it if there is none.

    Parameters
    ----------
    recipe
        What to train.
    folder
        Real lineages to train around; without it the gene is invented, and seed 0 of ``MINI`` is the bundled one.
    watch
        Whether to read gates and rows while it is trained; if not, only the accuracy is looked at, ``LOOKS`` times.

    Raises
    ------
    ValueError
        If the folder of that name holds another recipe or seed.
    """
    if folder is None and seed == 0 and recipe == dna_classifier.MINI:
        return checkpoints.find("variant-bert-mini").folder
    places = [Path(parent, name) for parent in (os.environ.get(RUNS), "runs") if parent]
    for place in places:
        if (place / "report.json").exists():
            return _expect(place, recipe, seed)
    data = dna_classifier.make_data(recipe, seed, folder)
    probe = (
        {"probe": dna_probe.make_probe(data), "probe_at": dna_probe.at(recipe.steps)}
        if watch
        else {"probe_at": range(0, recipe.steps, -(-recipe.steps // LOOKS))}
    )
    dna_classifier.train(recipe, places[-1], seed=seed, device=device, data=data, **probe)
    return places[-1]


def _expect(place: Path, recipe: dna_classifier.Recipe, seed: int) -> Path:
    card = json.loads((place / "report.json").read_text(encoding="utf-8"))
    if card["seed"] != seed or dna_classifier.Recipe(**card["recipe"]) != recipe:
        raise ValueError(f"{place} holds seed {card['seed']} of {card['recipe']}, not seed {seed} of {asdict(recipe)}")
    return place


def make_sets(
    data: dna_classifier.Data, backbones: Sequence[Backbone], seed: int, fresh: int = FRESH
) -> dict[str, list[Gene]]:
    """Make what a classifier is asked about, by the names of :data:`SETS`.

    *Test* sequences are of clades that training saw. *New clades* are of the same lineages with other substitutions,
    *far clades* have four times as many. In the last two, made like new clades, only substitutions or only deletions
    are left to tell the classes apart.
    """
    found = {"test": thin([data.genes[i] for i in data.parts.test], fresh)}
    found["new clades"] = list(simulate(backbones, fresh, 10_000 + seed))
    found["far clades"] = list(simulate(backbones, fresh, 20_000 + seed, shared=12.0))
    found["only substitutions"] = list(simulate(only_substitutions(backbones), fresh, 10_000 + seed))
    found["only deletions"] = list(simulate(only_deletions(backbones), fresh, 10_000 + seed))
    return found


def thin(genes: Sequence[Gene], most: int) -> list[Gene]:
    """Return at most that many sequences, evenly from the whole list.

    >>> [gene.name for gene in thin([Gene(name, "A") for name in "abcdef"], 3)]
    ['a', 'c', 'e']
    """
    return [genes[i] for i in np.unique(np.linspace(0, len(genes), min(most, len(genes)), endpoint=False).astype(int))]


def follow(
    model: torch.nn.Module, data: dna_classifier.Data, backbones: Sequence[Backbone], most: int = FRESH
) -> dict[str, Value]:
    """Give test sequences the deletions of another class, as for the baselines, and say whom the classifier follows.

    Returns
    -------
    dict
        ``exchanged_bases`` and ``exchanged_deletions``: how often it names the class of the one and of the other.
    """
    test = thin([data.genes[i] for i in data.parts.test], most)
    pairs = exchanged(test, fill_letters([b.aligned for b in backbones]))
    named = dna_classifier.predict(model, data.tokenizer, [gene.bases for gene, _ in pairs]).argmax(-1).tolist()
    labels = {"bases": [gene.label for gene, _ in pairs], "deletions": [label for _, label in pairs]}
    values = {}
    for what, due in labels.items():
        share = share_interval(sum(data.labels[i] == label for i, label in zip(named, due)), len(due))
        values[f"exchanged_{what}"] = Value(share.value, 0.02, share.low, share.high, len(due))
    return values


def confuse(model: torch.nn.Module, data: dna_classifier.Data, genes: Sequence[Gene]) -> np.ndarray:
    """Count how often each class (rows) is named as each (columns)."""
    return tally(data, genes, dna_classifier.predict(model, data.tokenizer, [gene.bases for gene in genes]))


def tally(data: dna_classifier.Data, genes: Sequence[Gene], probabilities: torch.Tensor) -> np.ndarray:
    """Count the same from class probabilities that are at hand, ``(sequence, class)``."""
    counts = np.zeros((len(data.labels), len(data.labels)), int)
    np.add.at(counts, ([data.labels.index(gene.label) for gene in genes], probabilities.argmax(-1).numpy()), 1)
    return counts


def confuse_all(model: torch.nn.Module, data: dna_classifier.Data, sets: Mapping[str, Sequence[Gene]]) -> np.ndarray:
    """Count for every set, ``(set, class, named)``, in the order of :data:`SETS`."""
    return np.stack([confuse(model, data, sets[name]) for name in SETS])


# ---- Three seeds of the variant classifier: how well they do, their training, and the same measures in each

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
    return measure_folder(find_run(f"seed{seed}", seed, device=device), seed, device)


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
    counts = confuse_all(run.model, run.data, make_sets(run.data, backbones, seed))
    values |= {name.replace(" ", "_"): accuracy_value(table) for name, table in zip(SETS, counts)}
    return values | follow(run.model, run.data, backbones), counts


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
