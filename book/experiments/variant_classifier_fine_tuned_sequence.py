"""One sequence in the nearest model: maps, rows and sums, beside those of the same body before and of random weights.

The networks are MiniLM fine-tuned on simulated genes, the same body before the fine-tuning, the same architecture with
random weights, and these with every matrix as large as the trained one. Figures 3 to 7 are maps: of each kind of gate
the head is taken that shows most of it on this sequence after the fine-tuning, and the same head in the other networks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from analysis.models.controls import scale_matrices
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from book.experiments.variant_fine_tuned import RECIPE, make_model
from book.lab import classifier_survey, phase_attention
from book.lab.classifier_runs import find_run
from book.lab.dna.fasta import Gene
from book.lab.gallery import choose_heads, pool, shares, strengths
from book.lab.mathematics import layer_profile
from book.lab.mathematics.stretching import row_norms
from book.publish.records import Experiment, Result

CLASS, SEED = "Omicron", 0
NETWORKS = ("fine-tuned", "start", "random", "random, as large")
NORMS_OF = (0, 3)
"""Layer and head of the paper's figure 2, which calls it head 4 of layer 1."""
SUMS_OF = (1, 2, 5)
"""The layers of figures 8 and 9, which the paper counts from 1."""
SPECTRA_OF = ((0, 3), (4, 9), (5, 8))
"""Layers and heads of figure 11; the last layer stands for the paper's twelfth."""


def measure(
    networks: Mapping[str, nn.Module], inputs: dict[str, Tensor], layers: Sequence[int] = SUMS_OF
) -> dict[str, np.ndarray]:
    """Measure what :class:`FineTunedSequence` holds, for one encoded sequence; the first network chooses the heads."""
    passed = {name: classifier_survey.pass_all(network, inputs)[0] for name, network in networks.items()}
    first, *_ = passed.values()
    heads = choose_heads(strengths(shares(torch.stack([layer.attention for layer in first]))))
    found = [_measure(networks[name], stations, heads, layers) for name, stations in passed.items()]
    return {name: np.stack([each[name] for each in found]) for name in found[0]} | {"heads": np.array(heads)}


@torch.no_grad()
def _measure(
    network: nn.Module, stations: Sequence[LayerActivations], heads: Sequence[tuple[int, int]], layers: Sequence[int]
) -> dict[str, np.ndarray]:
    layer, head = NORMS_OF
    lengths = row_norms(stations[layer].x, load(network).encoder_layers()[layer].attention, head)
    sums, some = layer_profile.sums(stations), list(layers)
    spectra = layer_profile.singular_values(stations)
    maps = torch.stack([stations[level].attention[place] for level, place in heads])
    arrays = {
        "growth": lengths[1:] / lengths[0],
        "row_D": layer_profile.row_statistics(stations)["first"][some],
        "sums": sums["second"][some],
        "total": sums["total"],
        "singular": torch.stack([spectra[place] for place in SPECTRA_OF]),
        "maps": pool(maps).half(),
    }
    carried = np.diagonal(strengths(shares(maps)))
    return {name: array.cpu().numpy() for name, array in arrays.items()} | {"carried": carried.astype(np.float32)}


def make_networks(run: classifier_survey.Run, device: torch.device) -> dict[str, nn.Module]:
    """Return the fine-tuned classifier, its start, random weights, and these as large as the trained ones."""
    start, random = (make_model(run.data, SEED, start).to(device) for start in (True, False))
    return dict(zip(NETWORKS, (run.model, start, random, scale_matrices(random, run.model)), strict=True))


def first_of_class(run: classifier_survey.Run) -> Gene:
    """Return the first test sequence of the class that the page draws."""
    return next(run.data.genes[i] for i in run.data.parts.test if run.data.genes[i].label == CLASS)


def compute(device: torch.device) -> Result:
    """One sequence in MiniLM fine-tuned on simulated genes, before it and with random weights: maps, rows, sums."""
    folder = find_run(f"minilm-{SEED}", SEED, recipe=RECIPE, device=device, watch=False)
    run = classifier_survey.open_run(folder, device=device)
    networks = make_networks(run, device)
    arrays = measure(networks, run.data.encode([first_of_class(run)]))
    genes = classifier_survey.firsts(run.data)
    arrays["turn"] = np.stack([phase_attention.survey_turns(network, run.data, genes) for network in networks.values()])
    return Result({}, arrays, {name: TOLERANCES.get(name, 0.05) for name in arrays})


TOLERANCES = {"sums": 5.0, "total": 20.0, "maps": 1.0, "heads": 0, "turn": 0.2}


EXPERIMENT = Experiment(compute, models=("minilm",), minutes=12, seed=SEED)
