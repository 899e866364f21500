"""The classifier around real lineages when sequences or whole lineages are kept apart, simple classifiers beside it.

Needs the folder ``sars-cov-2``; what is kept apart is real, the sequences are simulated.
"""

import torch

from book.lab.dna.simulate import read_backbones
from book.publish.records import Experiment, Result, data_folder
from book.studies.variant_data import real, splits

RUNS = {"sequence": "real", "lineage": "real-by-lineage"}


def compute(device: torch.device) -> Result:
    """Score both, with the recipe of ``variant-data-real``."""
    folder = data_folder("sars-cov-2")
    return splits.score_all(RUNS, real.RECIPE, read_backbones(folder), device, folder)


EXPERIMENT = Experiment(
    data=("sars-cov-2",),
    compute=compute,
    minutes=25,
    seed=0,
    summary="Trained around 510 real lineages, parted by sequence and by lineage, baselines on the same parts",
)
