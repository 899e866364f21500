"""The three seeds before training: the measures of ``variant-seeds`` on the weights that each training began with.

Needs no trained weights. Of each class the first test sequence is measured; gates are read for the classes in ``READ``.
"""

import numpy as np
import torch

from analysis.statistics import normality
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result
from book.studies.shared import variant_columns, variant_measures, variant_seeds
from book.studies.variant_classifier import phases

READ = ("Alpha", "GH/490R", "Lambda", "Omicron")
"""Classes whose sequence has its gates read, which takes most of the time; the page draws their columns."""
MANY = 60
"""Untrained models of which only the sums of rows are measured: what chance does to table 1."""
KEPT = tuple(name for name in variant_seeds.KEPT if name != "gates")


def untrained(
    seed: int,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    data: dna_classifier.Data | None = None,
    device: torch.device | str = "cpu",
) -> variant_measures.Run:
    """Return a classifier as its training begins: the seed's own sequences, vocabulary and initial weights."""
    from transformers import BertForSequenceClassification

    data = data or dna_classifier.make_data(recipe, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = dna_classifier.configure(recipe, data)
        model = BertForSequenceClassification._from_config(settings, attn_implementation="eager")
    return variant_measures.Run(model.eval().requires_grad_(False).to(device), data, {"seed": seed}, None)


def firsts(data: dna_classifier.Data) -> list:
    """Return the first test sequence of each class, in the order of the classes."""
    found = {}
    for i in data.parts.test:
        found.setdefault(data.genes[i].label, data.genes[i])
    return [found[label] for label in data.labels]


def one(
    seed: int, run: variant_measures.Run | None = None, device: torch.device | str = "cpu"
) -> dict[str, np.ndarray]:
    """Measure the untrained model of one seed: that run, or one made anew on the device.

    Returns
    -------
    dict
        :data:`KEPT` by sequence; ``gates``, ``profile`` and ``enriched`` for the classes of :data:`READ`; ``within``
        and ``pairs`` of ``phases.survey``.
    """
    run = run or untrained(seed, device=device)
    genes = firsts(run.data)
    read = [gene.label in READ for gene in genes]
    some = [gene for gene, each in zip(genes, read) if each]
    found = variant_measures.survey(run.model, run.data, genes, read=read)
    measured = variant_measures.stack(found)
    arrays = {name: measured[name] for name in KEPT} | {"maps": variant_measures.largest_values(run.model)}
    arrays["gates"] = np.stack([each["gates"] for each in found if "gates" in each]).astype(np.float32)
    profiles = variant_columns.profiles(run.data, some, [each for each in found if "gates" in each])
    arrays["enriched"] = variant_columns.by_sequence(profiles["profile"], profiles["profile_marks"]).astype(np.float32)
    arrays["profile"] = profiles["profile"][:, variant_columns.MASSES.index("columns")]
    return arrays | phases.survey(run.model, run.data, genes)


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


def compute(device: torch.device) -> Result:
    """Put the three seeds side by side, arrays with the seed first; and ``many_D_sum`` of :data:`MANY` models."""
    seeds = [one(seed, device=device) for seed in variant_seeds.SEEDS]
    longest = max(found["profile"].shape[-1] for found in seeds)
    for found in seeds:
        found["profile"] = np.pad(found["profile"], ((0, 0), (0, longest - found["profile"].shape[-1])))
    arrays = {name: np.stack([found[name] for found in seeds]) for name in seeds[0]}
    arrays["many_D_sum"] = many_sums(MANY, dna_classifier.make_data(dna_classifier.MINI, 0), device=device)
    tolerances = {name: variant_measures.tolerance(name) for name in arrays}
    return Result({}, arrays, tolerances | {"enriched": 0.3, "pairs": 1e-6})


EXPERIMENT = Experiment(
    compute=compute,
    minutes=6,
    seed=variant_seeds.SEEDS[-1],
    summary="The three seeds of the variant classifier before training: the measures on 8 sequences each",
)
