"""The same architecture trained around real lineages, and what it says of 89 real, openly deposited sequences.

Needs the folder ``sars-cov-2``; none of its sequences enters the project, only what is counted here.
"""

import numpy as np
import torch

from analysis.statistics.intervals import share_interval
from book.lab.dna.fasta import read_fasta
from book.lab.dna.kmers import unknown_share
from book.lab.dna.simulate import read_backbones
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value, data_folder
from book.studies.shared import variant_measures, variant_runs
from book.studies.shared import variant_seeds as seeds

FRESH = 64
RECIPE = dna_classifier.shortened(dna_classifier.MINI, steps=700)
"""Real classes are of up to 277 lineages and take longer than invented ones."""


def compute(device: torch.device) -> Result:
    """Evaluate the classifier on simulated and on real sequences, and measure it on one test sequence a class."""
    folder = data_folder("sars-cov-2")
    trained = variant_runs.find_run("real", recipe=RECIPE, folder=folder, device=device)
    run = variant_measures.open_run(trained, folder, device)
    backbones = read_backbones(folder)
    counts = variant_runs.confuse_all(run.model, run.data, variant_runs.make_sets(run.data, backbones, 0, FRESH))
    values = {name.replace(" ", "_"): seeds.accuracy_value(table) for name, table in zip(variant_runs.SETS, counts)}
    size = len(run.data.parts.test)
    whole = share_interval(round(run.card["test"] * size), size)
    values["whole_test"] = Value(whole.value, 0.01, whole.low, whole.high, size)
    values |= variant_runs.follow(run.model, run.data, backbones, FRESH)
    genes = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    real = variant_runs.confuse(run.model, run.data, genes)
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


EXPERIMENT = Experiment(
    data=("sars-cov-2",),
    compute=compute,
    minutes=15,
    seed=0,
    summary="Trained around 510 real lineages: accuracy by split and on 89 real sequences, and the measures",
)
