"""The same around 510 real lineages: accuracy when sequences, or whole lineages, are kept apart."""

import torch

from analysis.experiments.variant_real import RECIPE
from analysis.experiments.variant_splits import score_all
from analysis.records import Experiment, Result, data_folder
from analysis.sequences.simulate import read_backbones

DATA = "sars-cov-2"
RUNS = {"sequence": "real", "lineage": "real-by-lineage"}


def compute(device: torch.device) -> Result:
    """Score seed 0, parted in two ways, around the real lineages."""
    folder = data_folder(DATA)
    return score_all(RUNS, RECIPE, read_backbones(folder), folder, device)


EXPERIMENT = Experiment(
    name="variant-splits-real", data=(DATA,), compute=compute, minutes=20, seed=0,
    summary="The variant classifier around 510 real lineages parted by sequence and by lineage, baselines beside")
