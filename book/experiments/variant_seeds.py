"""Three seeds of the variant classifier: how well they do, their training, and the same measures in each and before it.

A seed is another simulation of sequences around the same lineages, another order and another initialisation. Seed 0
is the bundled one. Its architecture, sequences and updates are measured once more after a short pre-training, some
updates in which hidden words are guessed: which gates need it? The weights that each training began with need no
training: of each class the first test sequence is measured, and gates are read for the classes in ``READ``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from analysis.statistics import normality
from analysis.statistics.intervals import share_interval
from book.experiments.variant_measures import measure_run, tolerance
from book.lab import classifier_survey, marked_words, phase_attention
from book.lab.classifier_runs import FRESH, SETS, confuse_all, find_run, make_sets, thin
from book.lab.classifier_survey import Run, firsts, largest_values, open_run, untrained
from book.lab.dna.baselines import exchanged
from book.lab.dna.fasta import Gene
from book.lab.dna.phase import fill_letters
from book.lab.dna.simulate import Backbone, invent_backbones
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value

SEEDS = (0, 1, 2)
KEPT = [
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
]
MOST = 96
TRACED = ("loss", "step", "validation", "cone", "resultant", "entropy", "gates")
UPDATES = 400
RECIPE = replace(dna_classifier.MINI, pretrain_steps=UPDATES)
READ = ("Alpha", "GH/490R", "Lambda", "Omicron")
"""Untrained, the classes whose sequence has its gates read, which takes most of the time; the page draws their columns.
"""
MANY = 60
"""Untrained models of which only the sums of rows are measured: what chance does to table 1."""


def one(seed: int, device: torch.device) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Evaluate and measure the classifier of one seed; train it if it is not there."""
    return measure_folder(find_run(f"seed{seed}", seed, device=device), seed, device)


def measure_folder(
    folder: Path, seed: int, device: torch.device | str = "cpu"
) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Evaluate and measure a trained classifier on the sets of that seed."""
    run = open_run(folder, device=device)
    values, counts = score_run(run, seed)
    measured, found, _ = measure_run(run, 1, most=MOST, control=False)
    arrays = {name: measured[name] for name in KEPT} | {"maps": largest_values(run.model)}
    arrays["enriched"] = marked_words.by_sequence(measured["profile"], measured["profile_marks"])
    arrays["confusion"] = counts.astype(np.int32)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        arrays |= {f"trace_{name}": trace[name].astype(np.float32) for name in TRACED}
    return values | found, arrays


def score_run(run: Run, seed: int, backbones: Sequence[Backbone] | None = None) -> tuple[dict[str, Value], np.ndarray]:
    """Score a classifier on whole parts, on the sets of a seed and on exchanged deletions; also count confusions."""
    backbones, values = backbones or invent_backbones(0), {}
    for name in ("validation", "test"):
        size = len(getattr(run.data.parts, name))
        share = share_interval(round(run.card[name] * size), size)
        values[f"whole_{name}"] = Value(share.value, 0.01, share.low, share.high, size)
    counts = confuse_all(run.model, run.data, make_sets(run.data, backbones, seed))
    values |= {name.replace(" ", "_"): accuracy_value(table) for name, table in zip(SETS, counts)}
    return values | follow(run.model, run.data, backbones), counts


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
    return {f"exchanged_{what}": share for what, share in follow_pairs(model, data, pairs).items()}


def follow_pairs(
    model: torch.nn.Module, data: dna_classifier.Data, pairs: Sequence[tuple[Gene, str]]
) -> dict[str, Value]:
    """Return how often the classifier names the class of the ``bases``, and that of the ``deletions`` put into them."""
    named = dna_classifier.predict(model, data.tokenizer, [gene.bases for gene, _ in pairs]).argmax(-1).tolist()
    labels = {"bases": [gene.label for gene, _ in pairs], "deletions": [label for _, label in pairs]}
    values = {}
    for what, due in labels.items():
        share = share_interval(sum(data.labels[i] == label for i, label in zip(named, due)), len(due))
        values[what] = Value(share.value, 0.02, share.low, share.high, len(due))
    return values


def compute(device: torch.device) -> Result:
    """Three seeds of the variant classifier: accuracy by split, training, the measures on 8 sequences.

    Put the three seeds side by side: values with the seed after their name, arrays with the seed first.
    """
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
    return {name: 1e-3 if name.startswith("trace_") else special.get(name, tolerance(name)) for name in arrays}


def accuracy_value(counts: np.ndarray) -> Value:
    """Turn a table of confusions into the share on its diagonal, with the exact interval."""
    share = share_interval(int(np.trace(counts)), int(counts.sum()))
    return Value(share.value, 0.01, share.low, share.high, int(counts.sum()))


def compute_pretrained(device: torch.device) -> Result:
    """The variant classifier after a masked-k-mer pre-training: accuracy, training, gates and the measures.

    Evaluate and measure the pre-trained classifier, and keep the loss of its pre-training.
    """
    folder = find_run("pretrained", recipe=RECIPE, device=device)
    values, arrays = measure_folder(folder, 0, device)
    with np.load(folder / "trace.npz", allow_pickle=False) as trace:
        arrays["pretrain_loss"] = trace["pretrain_loss"].astype(np.float32)
    vocabulary = open_run(folder).card["vocabulary"]
    values |= {
        "updates": Value(UPDATES),
        "vocabulary": Value(vocabulary),
        "pretrain_loss": Value(float(arrays["pretrain_loss"][-20:].mean()), 0.05, unit="nats"),
    }
    return Result(values, arrays, tolerances(arrays) | {"pretrain_loss": 1e-2})


def measure_untrained(seed: int, run: Run | None = None, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure the untrained model of one seed: that run, or one made anew on the device.

    Returns
    -------
    dict
        :data:`KEPT` by sequence, but ``gates``, ``profile`` and ``enriched`` for the classes of :data:`READ`;
        ``within`` and ``pairs`` of ``phase_attention.survey``.
    """
    run = run or untrained(seed, device=device)
    genes = firsts(run.data)
    read = [gene.label in READ for gene in genes]
    some = [gene for gene, each in zip(genes, read) if each]
    found = classifier_survey.survey(run.model, run.data, genes, read=read)
    measured = classifier_survey.stack(found)
    arrays = {name: measured[name] for name in KEPT if name != "gates"} | {"maps": largest_values(run.model)}
    arrays["gates"] = np.stack([each["gates"] for each in found if "gates" in each]).astype(np.float32)
    profiles = marked_words.profiles(run.data, some, [each for each in found if "gates" in each])
    arrays["enriched"] = marked_words.by_sequence(profiles["profile"], profiles["profile_marks"]).astype(np.float32)
    arrays["profile"] = profiles["profile"][:, marked_words.MASSES.index("columns")]
    return arrays | phase_attention.survey(run.model, run.data, genes)


@torch.no_grad()
def many_sums(
    count: int,
    data: dna_classifier.Data,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    device: torch.device | str = "cpu",
) -> np.ndarray:
    """Return table 1 for many untrained models: D of the sum of one sequence's rows, ``(model, layer)``."""
    coded, found = data.encode(firsts(data)[-1:], device=device), []
    for seed in range(count):
        states = untrained(seed, recipe, data, device).model(**coded, output_hidden_states=True).hidden_states[1:]
        found.append(normality.lilliefors(torch.cat(states).sum(1)).cpu().numpy())
    return np.array(found, np.float32)


def survey_untrained(device: torch.device) -> Result:
    """The three seeds of the variant classifier before training: the measures on 8 sequences each.

    Put the three seeds side by side, arrays with the seed first; and ``many_D_sum`` of :data:`MANY` models.
    """
    seeds = [measure_untrained(seed, device=device) for seed in SEEDS]
    longest = max(found["profile"].shape[-1] for found in seeds)
    for found in seeds:
        found["profile"] = np.pad(found["profile"], ((0, 0), (0, longest - found["profile"].shape[-1])))
    arrays = {name: np.stack([found[name] for found in seeds]) for name in seeds[0]}
    arrays["many_D_sum"] = many_sums(MANY, dna_classifier.make_data(dna_classifier.MINI, 0), device=device)
    within = {name: tolerance(name) for name in arrays}
    return Result({}, arrays, within | {"enriched": 0.3, "pairs": 1e-6})


EXPERIMENTS = {
    "variant-seeds": Experiment(compute, models=("variant-bert-mini",), minutes=30, seed=SEEDS[-1]),
    "variant-data-pretraining": Experiment(compute_pretrained, minutes=12, seed=0),
    "variant-classifier-controls": Experiment(survey_untrained, minutes=6, seed=SEEDS[-1]),
}
