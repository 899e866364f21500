"""Trained classifiers by what their training kept apart, around the invented gene and around real lineages.

All learn from the same training part and are scored on the same test part, once, beside simple classifiers. Around real
lineages the sequences are simulated, too; ``real`` also asks the classifier about 89 real, openly deposited sequences.
What is real needs the folder ``sars-cov-2``; none of its sequences enters the project, only what is counted here.

How large the units are that are kept apart needs nothing of a classifier: an interval counts units as independent.

Deletions shift the words behind them, so after an exchange fewer words of the class of the bases are left, and a
classifier might follow the deletions because it has nothing else to read. A *telling* word is one that stood in at
least ``LEAST`` training sequences, ``PURE`` of them of one class. An exchange is *balanced* in favour of the bases
if the sequence has at least ``TIMES`` as many telling words of their class as of that of the deletions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.experiments import variant_measures, variant_seeds
from book.experiments.variant_baselines import score
from book.lab import classifier_runs, classifier_survey
from book.lab.dna.baselines import exchanged, fitted, hits
from book.lab.dna.fasta import Gene, read_fasta
from book.lab.dna.kmers import kmers, unknown_share
from book.lab.dna.phase import fill_letters
from book.lab.dna.simulate import Backbone, invent_backbones, read_backbones
from book.lab.dna.sites import telling_words, word_counts
from book.lab.dna.splits import split, unit_names
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value, data_folder

DATA = "sars-cov-2"
BASELINES = ("majority", "length", "phase", "nearest", "kmers", "kmers-gapped")
RUNS = {"sequence": "seed0", "clade": "by-clade", "lineage": "by-lineage"}
"""Folders of the trained classifiers by what is kept apart; parted by sequence it is the bundled one."""
REAL_RUNS = {"sequence": "real", "lineage": "real-by-lineage"}
REAL_RECIPE = dna_classifier.shortened(dna_classifier.MINI, steps=700)
"""Real classes are of up to 277 lineages and take longer than invented ones."""
FRESH = 64
LEAST, PURE, TIMES = 5, 0.9, 2


def score_run(run: classifier_survey.Run, backbones: Sequence[Backbone]) -> tuple[dict[str, Value], np.ndarray]:
    """Score a trained classifier and the simple ones on its own parts.

    Returns
    -------
    tuple
        Values, and how often each class of the test part is named as each, ``(class, named)``.
    """
    train, validation, test = (
        [run.data.genes[i] for i in part]
        for part in (run.data.parts.train, run.data.parts.validation, run.data.parts.test)
    )
    groups = unit_names(test, run.card["recipe"]["by"])
    probabilities = dna_classifier.predict(run.model, run.data.tokenizer, [gene.bases for gene in test])
    right = np.array([run.data.labels[i] == gene.label for i, gene in zip(probabilities.argmax(-1).tolist(), test)])
    values = {
        "bert": replace(score("bert", right, groups), tolerance=0.01),
        "validation": Value(run.card["validation"], 0.01, n=len(validation)),
        "train": Value(len(train)),
        "units": Value(len(set(groups)), n=len(test)),
    }
    values |= {name: score(name, hits(fitted(name, train, validation), test), groups) for name in BASELINES}
    values |= variant_seeds.follow(run.model, run.data, backbones)
    return values, classifier_runs.tally(run.data, test, probabilities)


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
        folder = classifier_runs.find_run(name, recipe=replace(recipe, by=by), folder=lineages, device=device)
        found, counts = score_run(classifier_survey.open_run(folder, lineages, device), backbones)
        values |= {f"{what}/{by}": value for what, value in found.items()}
        tables.append(counts)
    return Result(
        values, {"confusion": np.stack(tables).astype(np.int32), "parts": np.array(list(runs))}, {"confusion": 2}
    )


def compute_splits(device: torch.device) -> Result:
    """The variant classifier parted by sequence, by sub-clade and by lineage, baselines on the same parts."""
    return score_all(RUNS, dna_classifier.MINI, invent_backbones(0), device=device)


def compute_real_splits(device: torch.device) -> Result:
    """Trained around 510 real lineages, parted by sequence and by lineage, baselines on the same parts."""
    folder = data_folder(DATA)
    return score_all(REAL_RUNS, REAL_RECIPE, read_backbones(folder), device, folder)


def compute_real(device: torch.device) -> Result:
    """Trained around 510 real lineages: accuracy by split and on 89 real sequences, and the measures.

    Evaluate the classifier on simulated and on real sequences, and measure it on one test sequence a class.
    """
    folder = data_folder(DATA)
    trained = classifier_runs.find_run("real", recipe=REAL_RECIPE, folder=folder, device=device)
    run = classifier_survey.open_run(trained, folder, device)
    backbones = read_backbones(folder)
    counts = classifier_runs.confuse_all(run.model, run.data, classifier_runs.make_sets(run.data, backbones, 0, FRESH))
    values = {
        name.replace(" ", "_"): variant_seeds.accuracy_value(table) for name, table in zip(classifier_runs.SETS, counts)
    }
    size = len(run.data.parts.test)
    whole = share_interval(round(run.card["test"] * size), size)
    values["whole_test"] = Value(whole.value, 0.01, whole.low, whole.high, size)
    values |= variant_seeds.follow(run.model, run.data, backbones, FRESH)
    genes = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    real = classifier_runs.confuse(run.model, run.data, genes)
    values["open"] = variant_seeds.accuracy_value(real)
    of_test = [run.data.genes[i] for i in run.data.parts.test]
    for name, asked in (("open", genes), ("test", of_test)):
        unknown = [unknown_share(run.data.tokenizer, gene.bases) for gene in asked]
        values[f"{name}_unknown"] = Value(
            float(np.mean(unknown)), 1e-6, float(min(unknown)), float(max(unknown)), len(asked)
        )
    measured, found, _ = variant_measures.measure_run(run, 1, most=variant_measures.MOST, control=False)
    arrays = {name: measured[name] for name in variant_seeds.KEPT}
    tolerances = {name: variant_measures.tolerance(name) for name in arrays}
    arrays |= {"confusion": counts.astype(np.int32), "open_confusion": real.astype(np.int32)}
    return Result(values | found, arrays, tolerances | {"confusion": 2, "open_confusion": 1})


def sizes(units: Sequence[str]) -> np.ndarray:
    """Return how often each unit occurs, the largest first.

    >>> sizes(["a", "b", "b"])
    array([2, 1], dtype=int32)
    """
    return np.array([count for _, count in Counter(units).most_common()], np.int32)


def sizes_of_test(data: dna_classifier.Data, by: str) -> np.ndarray:
    """Part the sequences in another way, and return the sizes of the test part's units."""
    test = [data.genes[i] for i in split(data.genes, by, 0).test]
    return sizes(unit_names(test, by))


def count_units(device: torch.device) -> Result:
    """Sequences of each sub-clade or lineage in the test parts, around the invented gene and real lineages.

    Part the sequences of the invented gene and those around real lineages; count the deposited ones by lineage.
    """
    folder = data_folder(DATA)
    invented = dna_classifier.make_data(dna_classifier.MINI, 0)
    real = dna_classifier.make_data(replace(REAL_RECIPE, by="lineage"), 0, folder)
    deposited = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    arrays = {f"invented/{by}": sizes_of_test(invented, by) for by in ("clade", "lineage")}
    arrays |= {"real/lineage": sizes_of_test(real, "lineage"), "open": sizes([gene.lineage for gene in deposited])}
    return Result({}, arrays)


def find_telling_words(genes: Sequence[Gene]) -> dict[str, str]:
    """Return the words that tell a class, with that class.

    >>> first = [Gene(f"a{i}", "A" * 12, "a") for i in range(9)]
    >>> find_telling_words([*first, Gene("b", "A" * 12, "b")])
    {'AAAAAAAAAAAA': 'a'}
    """
    counts = word_counts(genes)
    return {word: counts[word].most_common(1)[0][0] for word in telling_words(counts, PURE, LEAST)}


def count_telling_words(gene: Gene, label: str, telling: dict[str, str]) -> int:
    """Count the words of a sequence that tell that class."""
    return sum(telling.get(word) == label for word in kmers(gene.bases))


def compute_balanced(device: torch.device) -> Result:
    """Exchanged deletions where the words still tell the class of the bases.

    Exchange deletions in the whole test part, keep the balanced ones, and ask the bundled classifier.
    """
    run = classifier_survey.open_run(checkpoints.find("variant-bert-mini").folder, device=device)
    data = run.data
    telling = find_telling_words([data.genes[i] for i in data.parts.train])
    test = [data.genes[i] for i in data.parts.test]
    pairs = exchanged(test, fill_letters([backbone.aligned for backbone in invent_backbones(0)]))
    words = np.array(
        [[count_telling_words(gene, label, telling) for label in (gene.label, other)] for gene, other in pairs]
    )
    chosen = np.flatnonzero((words[:, 0] >= TIMES * words[:, 1]) & (words[:, 0] > 0))
    values = {
        "words_before": Value(float(np.mean([count_telling_words(gene, gene.label, telling) for gene in test])), 0.01)
    }
    named = variant_seeds.follow_pairs(run.model, data, [pairs[i] for i in chosen])
    for column, (part, share) in enumerate(named.items()):
        values[f"named_{part}"] = share
        values[f"words_{part}"] = Value(float(words[chosen, column].mean()), 0.01, n=len(chosen))
        values[f"words_all_{part}"] = Value(float(words[:, column].mean()), 0.01, n=len(pairs))
    return Result(values)


EXPERIMENTS = {
    "variant-data-splits": Experiment(compute_splits, models=("variant-bert-mini",), minutes=16, seed=0),
    "variant-data-real-splits": Experiment(compute_real_splits, data=(DATA,), minutes=25, seed=0),
    "variant-data-real": Experiment(compute_real, data=(DATA,), minutes=15, seed=0),
    "variant-data-units": Experiment(count_units, data=(DATA,), minutes=0.5, seed=0),
    "variant-data-balanced-swap": Experiment(compute_balanced, models=("variant-bert-mini",), minutes=1, seed=0),
}
