"""Where trained classifiers of genes lie, and which sequences they are asked about.

Folders are looked for in ``ANALYSIS_RUNS``, then in ``runs``; what is not there is trained.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from analysis.models import checkpoints
from book.lab import dna_probe
from book.lab.dna.fasta import Gene
from book.lab.dna.phase import only_deletions, only_substitutions
from book.lab.dna.simulate import Backbone, simulate
from book.lab.training import dna_classifier

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

    ``folder`` has real lineages to train around; without it the gene is invented, and seed 0 of ``MINI`` is the bundled
    one. With ``watch`` gates and rows are read while it is trained; else only the accuracy, ``LOOKS`` times.
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
