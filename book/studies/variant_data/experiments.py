"""What is recorded of other sequences, other partings, a pre-training and simple classifiers.

The 89 openly deposited sequences are not aligned: each borrows the gaps of the lineage with as many bases that it then
differs least from, whatever its class. Their class is that of the nearest lineage's consensus, not a curated label,
and they were kept for being close to one, so this is a check of the simulation and no estimate for sequences at large.

Needs the folder ``sars-cov-2``; none of its sequences enters the project, only what is counted here.

All learn from the same training part and are scored on the same test part, once. The gene is the invented one.

Needs the folder ``sars-cov-2``; what is kept apart is real, the sequences are simulated.

The same architecture, sequences and updates as the bundled classifier, after some updates in which hidden words are
guessed. What is measured is what :mod:`book.studies.shared.variant_seeds` measures of the three seeds without it.

Deletions shift the words behind them, so after an exchange fewer words of the class of the bases are left, and a
classifier might follow the deletions because it has nothing else to read. A *telling* word is one that stood in at
least ``LEAST`` training sequences, ``PURE`` of them of one class. An exchange is *balanced* in favour of the bases
if the sequence has at least ``TIMES`` as many telling words of their class as of that of the deletions.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.lab.dna.baselines import hits
from book.lab.dna.fasta import Gene, read_fasta
from book.lab.dna.kmers import kmers, unknown_share
from book.lab.dna.phase import fill_letters, place
from book.lab.dna.simulate import Backbone, invent_backbones, read_backbones, simulate
from book.lab.dna.splits import unit_names
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value, data_folder
from book.studies.shared import variant_measures, variant_seeds
from book.studies.shared import variant_seeds as seeds
from book.studies.shared.variant_baselines import SEED, exchanged, fitted, measure, parts_of, score

# ---- The same simple classifiers around real lineages, and on real sequences that none of them was fitted on

DATA = "sars-cov-2"


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


def compute_real_baselines(device: torch.device) -> Result:
    """Measure around the real lineages, then on the real sequences."""
    folder = data_folder(DATA)
    backbones = read_backbones(folder)
    result, kept = measure(backbones)
    train = parts_of(list(simulate(backbones, result.values["sequences"].value, SEED)), "sequence")[0]
    return replace(result, values=result.values | on_open(kept, open_sequences(folder, backbones), train))


# ---- The same architecture trained around real lineages, and what it says of 89 real, openly deposited sequences

FRESH = 64
RECIPE = dna_classifier.shortened(dna_classifier.MINI, steps=700)
"""Real classes are of up to 277 lineages and take longer than invented ones."""


def compute_real(device: torch.device) -> Result:
    """Evaluate the classifier on simulated and on real sequences, and measure it on one test sequence a class."""
    folder = data_folder("sars-cov-2")
    trained = variant_seeds.find_run("real", recipe=RECIPE, folder=folder, device=device)
    run = variant_measures.open_run(trained, folder, device)
    backbones = read_backbones(folder)
    counts = variant_seeds.confuse_all(run.model, run.data, variant_seeds.make_sets(run.data, backbones, 0, FRESH))
    values = {name.replace(" ", "_"): seeds.accuracy_value(table) for name, table in zip(variant_seeds.SETS, counts)}
    size = len(run.data.parts.test)
    whole = share_interval(round(run.card["test"] * size), size)
    values["whole_test"] = Value(whole.value, 0.01, whole.low, whole.high, size)
    values |= variant_seeds.follow(run.model, run.data, backbones, FRESH)
    genes = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    real = variant_seeds.confuse(run.model, run.data, genes)
    values["open"] = seeds.accuracy_value(real)
    unknown = [unknown_share(run.data.tokenizer, gene.bases) for gene in genes]
    values["open_unknown"] = Value(float(np.mean(unknown)), 1e-6, float(min(unknown)), float(max(unknown)), len(genes))
    simulated = [unknown_share(run.data.tokenizer, run.data.genes[i].bases) for i in run.data.parts.test]
    values["test_unknown"] = Value(
        float(np.mean(simulated)), 1e-6, float(min(simulated)), float(max(simulated)), len(simulated)
    )
    measured, found, _ = variant_measures.measure_run(run, 1, most=variant_measures.MOST, control=False)
    arrays = {name: measured[name] for name in seeds.KEPT}
    tolerances = {name: variant_measures.tolerance(name) for name in arrays}
    arrays |= {"confusion": counts.astype(np.int32), "open_confusion": real.astype(np.int32)}
    return Result(values | found, arrays, tolerances | {"confusion": 2, "open_confusion": 1})


# ---- The variant classifier when sequences, sub-clades or whole lineages are kept apart

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
    values |= variant_seeds.follow(run.model, run.data, backbones)
    return values, variant_seeds.tally(run.data, test, probabilities)


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
        run = variant_seeds.find_run(name, recipe=replace(recipe, by=by), folder=lineages, device=device)
        found, counts = score_run(run, backbones, lineages, device)
        values |= {f"{what}/{by}": value for what, value in found.items()}
        tables.append(counts)
    return Result(
        values, {"confusion": np.stack(tables).astype(np.int32), "parts": np.array(list(runs))}, {"confusion": 2}
    )


def compute(device: torch.device) -> Result:
    """Score seed 0, parted in three ways, around the invented gene."""
    return score_all(RUNS, dna_classifier.MINI, invent_backbones(0), device=device)


# ---- The classifier around real lineages when sequences or whole lineages are kept apart

REAL_RUNS = {"sequence": "real", "lineage": "real-by-lineage"}


def compute_real_splits(device: torch.device) -> Result:
    """Score both, with the recipe of ``variant-data-real``."""
    folder = data_folder("sars-cov-2")
    return score_all(REAL_RUNS, RECIPE, read_backbones(folder), device, folder)


# ---- The variant classifier with a short masked-k-mer pre-training: which gates need it?

UPDATES = 400
PRETRAINED_RECIPE = replace(dna_classifier.MINI, pretrain_steps=UPDATES)


def compute_pretraining(device: torch.device) -> Result:
    """Evaluate and measure the pre-trained classifier, and keep the loss of its pre-training."""
    folder = variant_seeds.find_run("pretrained", recipe=PRETRAINED_RECIPE, device=device)
    values, arrays = seeds.measure_folder(folder, 0, device)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        arrays["pretrain_loss"] = trace["pretrain_loss"].astype(np.float32)
    vocabulary = variant_measures.open_run(folder).card["vocabulary"]
    values |= {
        "updates": Value(UPDATES),
        "vocabulary": Value(vocabulary),
        "pretrain_loss": Value(float(arrays["pretrain_loss"][-20:].mean()), 0.05, unit="nats"),
    }
    return Result(values, arrays, seeds.tolerances(arrays) | {"pretrain_loss": 1e-2})


# ---- Exchanged deletions where the words still tell the class of the bases: whom the bundled classifier follows

LEAST, PURE, TIMES = 5, 0.9, 2


def find_telling_words(genes: Sequence[Gene]) -> dict[str, str]:
    """Return the words that tell a class, with that class.

    >>> first = [Gene(f"a{i}", "A" * 12, "a") for i in range(9)]
    >>> find_telling_words([*first, Gene("b", "A" * 12, "b")])
    {'AAAAAAAAAAAA': 'a'}
    """
    counts: dict[str, Counter] = defaultdict(Counter)
    for gene in genes:
        for word in set(kmers(gene.bases)):
            counts[word][gene.label] += 1
    common = {word: of_class.most_common(1)[0] for word, of_class in counts.items()}
    return {
        word: label
        for word, (label, count) in common.items()
        if counts[word].total() >= LEAST and count >= PURE * counts[word].total()
    }


def count_telling_words(gene: Gene, label: str, telling: dict[str, str]) -> int:
    """Count the words of a sequence that tell that class."""
    return sum(telling.get(word) == label for word in kmers(gene.bases))


def compute_balanced_swap(device: torch.device) -> Result:
    """Exchange deletions in the whole test part, keep the balanced ones, and ask the bundled classifier."""
    run = variant_measures.open_run(checkpoints.find("variant-bert-mini").folder, device=device)
    data = run.data
    telling = find_telling_words([data.genes[i] for i in data.parts.train])
    test = [data.genes[i] for i in data.parts.test]
    pairs = exchanged(test, fill_letters([backbone.aligned for backbone in invent_backbones(0)]))
    words = np.array(
        [[count_telling_words(gene, label, telling) for label in (gene.label, other)] for gene, other in pairs]
    )
    chosen = np.flatnonzero((words[:, 0] >= TIMES * words[:, 1]) & (words[:, 0] > 0))
    balanced = [pairs[i] for i in chosen]
    named = dna_classifier.predict(run.model, data.tokenizer, [gene.bases for gene, _ in balanced]).argmax(-1).tolist()
    due = {"bases": [gene.label for gene, _ in balanced], "deletions": [other for _, other in balanced]}
    values = {
        "words_before": Value(float(np.mean([count_telling_words(gene, gene.label, telling) for gene in test])), 0.01)
    }
    for column, (part, labels) in enumerate(due.items()):
        share = share_interval(sum(data.labels[i] == label for i, label in zip(named, labels)), len(labels))
        values[f"named_{part}"] = Value(share.value, 0.02, share.low, share.high, len(labels))
        values[f"words_{part}"] = Value(float(words[chosen, column].mean()), 0.01, n=len(labels))
        values[f"words_all_{part}"] = Value(float(words[:, column].mean()), 0.01, n=len(pairs))
    return Result(values)


EXPERIMENTS = {
    "baselines-real": Experiment(
        compute=compute_real_baselines,
        data=(DATA,),
        minutes=0.6,
        seed=SEED,
        summary="Simple classifiers beside the variant classifier, around 510 real lineages and on 89 real sequences",
    ),
    "real": Experiment(
        data=("sars-cov-2",),
        compute=compute_real,
        minutes=15,
        seed=0,
        summary="Trained around 510 real lineages: accuracy by split and on 89 real sequences, and the measures",
    ),
    "splits": Experiment(
        models=("variant-bert-mini",),
        compute=compute,
        minutes=16,
        seed=0,
        summary="The variant classifier parted by sequence, by sub-clade and by lineage, baselines on the same parts",
    ),
    "real-splits": Experiment(
        data=("sars-cov-2",),
        compute=compute_real_splits,
        minutes=25,
        seed=0,
        summary="Trained around 510 real lineages, parted by sequence and by lineage, baselines on the same parts",
    ),
    "pretraining": Experiment(
        compute=compute_pretraining,
        minutes=12,
        seed=0,
        summary="The variant classifier after a masked-k-mer pre-training: accuracy, training, gates and the measures",
    ),
    "balanced-swap": Experiment(
        models=("variant-bert-mini",),
        compute=compute_balanced_swap,
        minutes=1,
        seed=0,
        summary="Exchanged deletions where the words still tell the class of the bases",
    ),
}
