"""One sequence in the nearest model: the paper's pictures of one sequence, in MiniLM fine-tuned on simulated genes.

Beside it stand the same body before the fine-tuning, the same architecture with random weights, and these random
weights with every matrix as large as the trained one. Figures 3 to 7 are maps: of each kind of gate the head is taken
that shows most of it on this sequence after the fine-tuning, and the same head is drawn in the other networks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from analysis.maps.gates import GATES, read_gates
from analysis.models.controls import scale_matrices
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from book.lab.dna.fasta import Gene
from book.lab.mathematics import layer_profile
from book.lab.mathematics.stretching import row_norms
from book.publish import Inputs, live_or_record
from book.publish.records import Experiment, Result
from book.studies.shared import variant_measures, variant_runs
from book.studies.shared.variant_fine_tuned import RECIPE, make_model
from book.studies.variant_classifier import controls, phases
from book.studies.variant_classifier.sequence import CLASS, NORMS_OF, SUMS_OF

SEED = 0
NETWORKS = ("fine-tuned", "start", "random", "random, as large")
KINDS = {
    "directional": ("directional",),
    "open": ("open",),
    "contextual": ("backward", "forward"),
    "cluster": ("cluster",),
}
"""What figures 3 to 6 show, by the gates that make it; figure 7 shows several at once."""
SEVERAL = "several"
SPECTRA_OF = ((0, 3), (4, 9), (5, 8))
"""Layers and heads of figure 11; the last layer stands for the paper's twelfth."""
POOLED = 3
"""A map is kept as means over squares of so many tokens: a picture has fewer points than the map has cells."""


@dataclass(frozen=True)
class FineTunedSequence:
    """One sequence in four networks, arrays with the :data:`NETWORKS` first.

    ``growth`` has the norms of the rows of Q, K and V over those of X in one head; ``row_D`` the Lilliefors statistics
    of the rows after the first LayerNorm in three layers; ``sums`` the sums of the rows of these layers and ``total``
    that of all; ``singular`` the singular values of three heads' outputs over the root of their rows. ``maps`` are
    those of ``heads``, one a kind, in multiples of an even share; ``carried`` says what each kind carries in them.
    ``turn`` says how far rows turn where the phase changes, over how far elsewhere, in one sequence of each class.
    """

    growth: Float[np.ndarray, "network map position"]
    row_D: Float[np.ndarray, "network layer position"]
    sums: Float[np.ndarray, "network layer model"]
    total: Float[np.ndarray, "network model"]
    singular: Float[np.ndarray, "network head channel"]
    maps: Float[np.ndarray, "network kind query key"]
    carried: Float[np.ndarray, "network kind"]
    turn: Float[np.ndarray, "network class layer"]
    heads: Int[np.ndarray, "kind place"]


def strengths(shares: Float[np.ndarray, "... gate"]) -> Float[np.ndarray, "kind ..."]:
    """Return how much of each kind maps hold, from the shares of their gates; of several, the second largest.

    >>> shares = np.zeros(len(GATES))
    >>> shares[[GATES.index("cluster"), GATES.index("open")]] = 0.3, 0.1
    >>> strengths(shares).tolist()
    [0.0, 0.1, 0.0, 0.3, 0.1]
    """
    of_kinds = np.stack([shares[..., [GATES.index(gate) for gate in gates]].sum(-1) for gates in KINDS.values()])
    return np.concatenate([of_kinds, np.sort(of_kinds, 0)[-2:-1]])


def choose_heads(strength: Float[np.ndarray, "kind layer head"]) -> list[tuple[int, int]]:
    """Return of each kind the head with most of it, of those not chosen before where there are any.

    >>> choose_heads(np.array([[[0.5, 0.1]], [[0.4, 0.3]]]))
    [(0, 0), (0, 1)]
    """
    chosen: list[tuple[int, int]] = []
    for scores in strength:
        order = np.argsort(-scores, axis=None, kind="stable")
        places = [tuple(int(index) for index in np.unravel_index(place, scores.shape)) for place in order]
        chosen.append(next((place for place in places if place not in chosen), places[0]))
    return chosen


def pool(maps: Float[Tensor, "map query key"], square: int = POOLED) -> Float[Tensor, "map row column"]:
    """Return means over squares of cells, in multiples of an even share; what is left over at the end is dropped.

    >>> pool(torch.eye(4)[None], 2).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    return avg_pool2d(maps[None], square)[0] * maps.shape[-1]


def measure(
    networks: Mapping[str, nn.Module], inputs: dict[str, Tensor], layers: Sequence[int] = SUMS_OF
) -> dict[str, np.ndarray]:
    """Measure what :class:`FineTunedSequence` holds, for one encoded sequence; the first network chooses the heads."""
    passed = {name: variant_measures.pass_all(network, inputs)[0] for name, network in networks.items()}
    first, *_ = passed.values()
    heads = choose_heads(strengths(_shares(torch.stack([layer.attention for layer in first]))))
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
    carried = np.diagonal(strengths(_shares(maps)))
    return {name: array.cpu().numpy() for name, array in arrays.items()} | {"carried": carried.astype(np.float32)}


def _shares(maps: Float[Tensor, "*batch query key"]) -> Float[np.ndarray, "*batch gate"]:
    """Return what each gate carries in each map."""
    flat = maps.reshape(-1, *maps.shape[-2:])
    return read_gates(flat).scores.cpu().numpy().reshape(*maps.shape[:-2], len(GATES))


def make_networks(run: variant_measures.Run, device: torch.device) -> dict[str, nn.Module]:
    """Return the fine-tuned classifier, its start, random weights, and these as large as the trained ones."""
    start, random = (make_model(run.data, SEED, start).to(device) for start in (True, False))
    return dict(zip(NETWORKS, (run.model, start, random, scale_matrices(random, run.model)), strict=True))


def first_of_class(run: variant_measures.Run) -> Gene:
    """Return the first test sequence of the class that the page draws."""
    return next(run.data.genes[i] for i in run.data.parts.test if run.data.genes[i].label == CLASS)


def compute(device: torch.device) -> Result:
    """Measure the first test sequence of the class in all networks."""
    folder = variant_runs.find_run(f"minilm-{SEED}", SEED, recipe=RECIPE, device=device, watch=False)
    run = variant_measures.open_run(folder, device=device)
    networks = make_networks(run, device)
    arrays = measure(networks, run.data.encode([first_of_class(run)]))
    genes = controls.firsts(run.data)
    arrays["turn"] = np.stack([phases.survey_turns(network, run.data, genes) for network in networks.values()])
    return Result({}, arrays, {name: TOLERANCES.get(name, 0.05) for name in arrays})


def read_sequence(inputs: Inputs) -> tuple[FineTunedSequence, str]:
    """Read the record; return it with a sentence on where it comes from."""
    record, source = live_or_record("variant-classifier-fine-tuned-sequence", inputs, recompute=False)
    names = FineTunedSequence.__dataclass_fields__
    arrays = {name: record.array(name).astype(int if name == "heads" else float) for name in names}
    return FineTunedSequence(**arrays), source


TOLERANCES = {"sums": 5.0, "total": 20.0, "maps": 1.0, "heads": 0, "turn": 0.2}
EXPERIMENT = Experiment(
    models=("minilm",),
    compute=compute,
    minutes=12,
    seed=SEED,
    summary="One sequence in MiniLM fine-tuned on simulated genes, before it and with random weights: maps, rows, sums",
)
