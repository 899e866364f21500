"""What the variant classifier's accuracy is worth: simple classifiers on the same sequences, and the leak of the phase.

Every accuracy is that of a test part scored once; where there is something to choose (the penalty of the regression)
the validation part chose it. Intervals count the units that were parted (sequences, clades, lineages) as independent,
not their sequences. Nothing but numbers is kept.

Then the same around real lineages, which needs the folder ``sars-cov-2``, and on real sequences that no classifier was
fitted on. The 89 openly deposited sequences are not aligned: each borrows the gaps of the lineage with as many bases
that it then differs least from, whatever its class. Their class is that of the nearest lineage's consensus, not a
curated label, and they were kept for being close to one, so this is a check of the simulation and no estimate for
sequences at large.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from analysis.statistics.intervals import grouped_share_interval
from book.lab.dna.baselines import BASELINES, KmerRegression, exchanged, fitted, hits
from book.lab.dna.fasta import Gene, read_fasta
from book.lab.dna.kmers import kmers
from book.lab.dna.phase import fill_letters, only_deletions, only_substitutions, phases, place
from book.lab.dna.simulate import Backbone, invent_backbones, read_backbones, simulate
from book.lab.dna.splits import UNITS, split, unit_names
from book.publish.records import Experiment, Result, Value, data_folder

SEQUENCES, SEED = 1200, 0
SIZES, DRAWS = (1, 2, 4, 8, 16, 32), 3
DATA = "sars-cov-2"
EDGE = 0.02
"""How far an accuracy of the regression may differ on another machine; the others are exact."""


def parts_of(genes: Sequence[Gene], by: str) -> list[list[Gene]]:
    """Return the sequences of training, validation and test."""
    parts = split(genes, by, SEED)
    return [[genes[i] for i in part] for part in (parts.train, parts.validation, parts.test)]


def score(name: str, right: np.ndarray, groups: Sequence[str]) -> Value:
    """Return an accuracy with its interval; ``n`` counts the sequences."""
    share, low, high = grouped_share_interval(right, groups)
    return Value(share, tolerance=EDGE if name.startswith("kmers") else 1e-9, low=low, high=high, n=len(right))


def by_split(genes: Sequence[Gene]) -> tuple[dict[str, Value], dict]:
    """Score every baseline with each way to part; also return those fitted on the parting by sequence."""
    values, kept = {}, {}
    for by in UNITS:
        train, validation, test = parts_of(genes, by)
        groups = unit_names(test, by)
        known = {word for gene in train for word in kmers(gene.bases)}
        unknown = np.mean([np.mean([word not in known for word in kmers(gene.bases)]) for gene in test])
        values |= {
            f"units/{by}": Value(len(set(groups)), n=len(test)),
            f"unknown/{by}": Value(float(unknown), tolerance=1e-9, n=len(test)),
        }
        for name in BASELINES:
            one = fitted(name, train, validation)
            values[f"{name}/{by}"] = score(name, hits(one, test), groups)
            if by == "sequence":
                kept[name] = one
    return values, kept


def by_evidence(backbones: Sequence[Backbone], count: int) -> dict[str, Value]:
    """Score the baselines where only deletions, or only substitutions, tell the classes apart; parted by clade."""
    values = {}
    for evidence, reduce in (("deletions", only_deletions), ("substitutions", only_substitutions)):
        train, validation, test = parts_of(list(simulate(reduce(backbones), count, SEED)), "clade")
        for name in BASELINES:
            right = hits(fitted(name, train, validation), test)
            values[f"{name}/only-{evidence}"] = score(name, right, unit_names(test, "clade"))
    return values


def by_exchange(classifiers: dict, test: Sequence[Gene], fill: str) -> dict[str, Value]:
    """Say which class is named for bases of one and deletions of another."""
    pairs = exchanged(test, fill)
    values = {}
    for name in ("nearest", "nearest-ungapped", "kmers", "kmers-gapped", "phase"):
        named = classifiers[name].predict([gene for gene, _ in pairs])
        for what, due in (("bases", [gene.label for gene, _ in pairs]), ("deletions", [label for _, label in pairs])):
            right = np.array([a == b for a, b in zip(named, due)])
            values[f"{name}/exchanged-{what}"] = score(name, right, [gene.name for gene, _ in pairs])
    return values


def by_size(genes: Sequence[Gene]) -> np.ndarray:
    """Return the regression's test accuracy with 1, 2, 4, ... training sequences a class, ``(draw, size)``."""
    train, _, test = parts_of(genes, "clade")
    labels = sorted({gene.label for gene in train})
    table = np.zeros((DRAWS, len(SIZES)))
    for draw in range(DRAWS):
        order = np.random.default_rng([SEED, draw]).permutation(len(train))
        members = {label: [train[i] for i in order if train[i].label == label] for label in labels}
        for column, size in enumerate(SIZES):
            few = [gene for label in labels for gene in members[label][:size]]
            table[draw, column] = hits(KmerRegression().fit(few), test).mean()
    return table


def lengths_and_phases(genes: Sequence[Gene]) -> dict[str, np.ndarray]:
    """Count each class's lengths, and take the phases along the gene that are most frequent in it."""
    classes = sorted({gene.label for gene in genes})
    lengths = sorted({len(gene.bases) for gene in genes})
    counts = np.array(
        [[sum(g.label == label and len(g.bases) == n for g in genes) for n in lengths] for label in classes]
    )
    tracks = []
    for label in classes:
        rows, often = np.unique(
            [phases(gene.aligned) for gene in genes if gene.label == label], axis=0, return_counts=True
        )
        tracks.append(rows[often.argmax()])
    return {
        "classes": np.array(classes),
        "lengths": np.array(lengths),
        "length_counts": counts,
        "phases": np.array(tracks).astype(np.uint8),
    }


def measure(backbones: Sequence[Backbone], count: int = SEQUENCES) -> tuple[Result, dict]:
    """Measure everything above on sequences simulated around these backbones; also return the fitted baselines."""
    genes = list(simulate(backbones, count, SEED))
    values, kept = by_split(genes)
    fill = fill_letters([backbone.aligned for backbone in backbones])
    values |= by_evidence(backbones, count) | by_exchange(kept, parts_of(genes, "sequence")[2], fill)
    sizes = by_size(genes)
    values |= {
        "sequences": Value(len(genes)),
        "backbones": Value(len(backbones)),
        "distinct_backbones": Value(len({backbone.aligned for backbone in backbones})),
        "kmers/one-a-class": Value(float(sizes[:, 0].mean()), tolerance=0.1, n=DRAWS),
    }
    arrays = {"size": np.array(SIZES), "size_accuracy": sizes, **lengths_and_phases(genes)}
    return Result(values, arrays, {"size_accuracy": 0.1}), kept


def compute(device: torch.device) -> Result:
    """Simple classifiers beside the variant classifier, and what the phase of the words gives away: invented gene."""
    return measure(invent_backbones(0))[0]


def open_sequences(folder: Path, backbones: Sequence[Backbone]) -> list[Gene]:
    """Read the real sequences and align each to the lineage it differs least from."""
    templates = [backbone.aligned for backbone in backbones]
    genes = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    return [replace(gene, aligned=place(gene.bases, templates)) for gene in genes]


def on_open(classifiers: dict, genes: Sequence[Gene], train: Sequence[Gene]) -> dict[str, Value]:
    """Score fitted baselines on real sequences; those nearest to one lineage count as one unit in the interval."""
    groups = [gene.lineage for gene in genes]
    known = {word for gene in train for word in kmers(gene.bases)}
    unknown = np.mean([np.mean([word not in known for word in kmers(gene.bases)]) for gene in genes])
    return {
        "open/sequences": Value(len(genes)),
        "open/lineages": Value(len(set(groups))),
        "open/classes": Value(len({gene.label for gene in genes})),
        "open/unknown": Value(float(unknown), tolerance=1e-9, n=len(genes)),
        **{f"{name}/open": score(name, hits(one, genes), groups) for name, one in classifiers.items()},
    }


def compute_real(device: torch.device) -> Result:
    """Simple classifiers beside the variant classifier, around 510 real lineages and on 89 real sequences."""
    folder = data_folder(DATA)
    backbones = read_backbones(folder)
    result, kept = measure(backbones)
    train = parts_of(list(simulate(backbones, result.values["sequences"].value, SEED)), "sequence")[0]
    return replace(result, values=result.values | on_open(kept, open_sequences(folder, backbones), train))


EXPERIMENTS = {
    "variant-baselines": Experiment(compute, minutes=0.3, seed=SEED),
    "variant-data-baselines-real": Experiment(compute_real, data=(DATA,), minutes=0.6, seed=SEED),
}
