"""The three seeds before training: the measures of ``variant-seeds`` on the weights that each training began with.

Needs no trained weights. Of each class the first test sequence is measured; gates are read for the classes in ``READ``.
"""

import numpy as np
import torch

from analysis.statistics import normality
from book.experiments import variant_measures, variant_seeds
from book.lab import classifier_survey, marked_words, phase_attention
from book.lab.classifier_survey import Run, firsts, untrained
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result

READ = ("Alpha", "GH/490R", "Lambda", "Omicron")
"""Classes whose sequence has its gates read, which takes most of the time; the page draws their columns."""
MANY = 60
"""Untrained models of which only the sums of rows are measured: what chance does to table 1."""
KEPT = tuple(name for name in variant_seeds.KEPT if name != "gates")


def one(seed: int, run: Run | None = None, device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure the untrained model of one seed: that run, or one made anew on the device.

    Returns
    -------
    dict
        :data:`KEPT` by sequence; ``gates``, ``profile`` and ``enriched`` for the classes of :data:`READ`; ``within``
        and ``pairs`` of ``phase_attention.survey``.
    """
    run = run or untrained(seed, device=device)
    genes = firsts(run.data)
    read = [gene.label in READ for gene in genes]
    some = [gene for gene, each in zip(genes, read) if each]
    found = classifier_survey.survey(run.model, run.data, genes, read=read)
    measured = classifier_survey.stack(found)
    arrays = {name: measured[name] for name in KEPT} | {"maps": classifier_survey.largest_values(run.model)}
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
