"""How large the units are that are kept apart: the sequences of each sub-clade or lineage in the test parts.

An interval counts units as independent. It needs their sizes, and nothing of a classifier. What is real needs the
folder ``sars-cov-2``; only sizes leave it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from book.experiments.variant_data import DATA, REAL_RECIPE
from book.lab.dna.fasta import read_fasta
from book.lab.dna.splits import split, unit_names
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, data_folder


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


def compute(device: torch.device) -> Result:
    """Part the sequences of the invented gene and those around real lineages; count the deposited ones by lineage."""
    folder = data_folder(DATA)
    invented = dna_classifier.make_data(dna_classifier.MINI, 0)
    real = dna_classifier.make_data(replace(REAL_RECIPE, by="lineage"), 0, folder)
    deposited = read_fasta(folder / "open_sequences_S.fasta.gz", folder / "open_sequences.tsv")
    arrays = {f"invented/{by}": sizes_of_test(invented, by) for by in ("clade", "lineage")}
    arrays |= {"real/lineage": sizes_of_test(real, "lineage"), "open": sizes([gene.lineage for gene in deposited])}
    return Result({}, arrays)


EXPERIMENT = Experiment(
    compute=compute,
    data=(DATA,),
    minutes=0.5,
    seed=0,
    summary="Sequences of each sub-clade or lineage in the test parts, around the invented gene and real lineages",
)
