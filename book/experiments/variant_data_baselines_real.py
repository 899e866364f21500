"""The simple classifiers around real lineages, and on real sequences that none of them was fitted on.

The 89 openly deposited sequences are not aligned: each borrows the gaps of the lineage with as many bases that it then
differs least from, whatever its class. Their class is that of the nearest lineage's consensus, not a curated label,
and they were kept for being close to one, so this is a check of the simulation and no estimate for sequences at large.

Needs the folder ``sars-cov-2``; none of its sequences enters the project, only what is counted here.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from book.experiments.variant_baselines import SEED, measure, parts_of, score
from book.lab.dna.baselines import hits
from book.lab.dna.fasta import Gene, read_fasta
from book.lab.dna.kmers import kmers
from book.lab.dna.phase import place
from book.lab.dna.simulate import Backbone, read_backbones, simulate
from book.publish.records import Experiment, Result, Value, data_folder

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


def compute(device: torch.device) -> Result:
    """Measure around the real lineages, then on the real sequences."""
    folder = data_folder(DATA)
    backbones = read_backbones(folder)
    result, kept = measure(backbones)
    train = parts_of(list(simulate(backbones, result.values["sequences"].value, SEED)), "sequence")[0]
    return replace(result, values=result.values | on_open(kept, open_sequences(folder, backbones), train))


EXPERIMENT = Experiment(
    compute=compute,
    data=(DATA,),
    minutes=0.6,
    seed=SEED,
    summary="Simple classifiers beside the variant classifier, around 510 real lineages and on 89 real sequences",
)
