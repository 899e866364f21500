"""One sequence in the bundled classifier and in the nearest model.

Beside it stand the same body before the fine-tuning, the same architecture with random weights, and these random
weights with every matrix as large as the trained one. Figures 3 to 7 are maps: of each kind of gate the head is taken
that shows most of it on this sequence after the fine-tuning, and the same head is drawn in the other networks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from analysis.maps.gates import GATES, read_gates
from analysis.models.controls import LARGE, SEEDS, make_controls, scale_matrices
from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.transformer.activations import LayerActivations
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import kmers
from book.lab.mathematics import layer_profile, stretching
from book.lab.mathematics.stretching import row_norms
from book.lab.training import dna_classifier
from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Experiment, Result
from book.studies.shared import variant_measures, variant_seeds
from book.studies.shared.variant_fine_tuned import RECIPE, make_model
from book.studies.variant_classifier import controls

# ---- One sequence in the bundled classifier and in its control: the pictures that the paper draws of one sequence

CLASS = "Omicron"
NORMS_OF = (0, 3)
"""Layer and head of the paper's figure 2, which calls it head 4 of layer 1."""
ROWS_OF = (1, 2, 5, 11)
"""The layers of figure 8, which the paper counts from 1, and the last one."""
SUMS_OF = ROWS_OF[:3]
SPECTRA_OF = ((0, 3), (4, 9), (11, 8))
"""Layers and heads of figure 11."""


@dataclass(frozen=True)
class Passage:
    """A sequence on its way through both models, padded; ``keep`` marks the rows that are tokens."""

    run: variant_measures.Run
    gene: Gene
    coded: Mapping[str, Tensor]
    models: Mapping[str, nn.Module]
    stations: Mapping[str, list[LayerActivations]]
    keep: Bool[Tensor, " position"]

    @property
    def tokens(self) -> int:
        """Count the rows that are tokens, [CLS] among them."""
        return int(self.keep.sum())


@dataclass(frozen=True)
class Example(Numbers):
    """What one sequence shows: ``n`` tokens of ``width`` coordinates, by model (trained, control).

    ``norms`` are of the rows of X, Q, K and V, ``input_norm`` the median of the first and ``input_spread`` their range
    as a share of it, in the trained model; ``row_statistics`` are the Lilliefors statistics of the rows after the
    first LayerNorm, by layer; ``sums`` are those of the rows after the second, by title, ``totals`` over all layers;
    ``singular_values`` are those of the outputs of three heads over the root of n.
    """

    n: int
    width: int
    gene: Gene
    tokens: tuple[str, ...]
    keep: Bool[np.ndarray, " position"]
    probabilities: Float[np.ndarray, " class"]
    norms: Mapping[str, Float[np.ndarray, "kind position"]]
    row_statistics: Mapping[int, Mapping[str, np.ndarray]]
    sums: Mapping[str, tuple[str, np.ndarray]]
    totals: Mapping[str, np.ndarray]
    singular_values: Mapping[str, Mapping[str, np.ndarray]]
    input_norm: float
    input_spread: float


@dataclass(frozen=True)
class Head:
    """The classification head beside tanh([CLS] W + b) W' + b': the largest differences, and its sizes.

    ``loss`` is beside minus the logarithm of the softmax of these logits, ``probabilities`` beside the softmax.
    """

    logits: float
    loss: float
    probabilities: float
    class_token_first: bool
    hidden_units: int
    outputs: int


def pass_example(run: variant_measures.Run, device: torch.device) -> Passage:
    """Take the first test sequence of the class through the classifier and its control."""
    gene = next(gene for gene in (run.data.genes[i] for i in run.data.parts.test) if gene.label == CLASS)
    coded = run.data.encode([gene], dna_classifier.POSITIONS, device)
    models = {"trained": run.model, "control": run.control()}
    passed = {name: variant_measures.pass_all(model, coded) for name, model in models.items()}
    return Passage(
        run, gene, coded, models, {name: stations for name, (stations, _) in passed.items()}, passed["trained"][1]
    )


def measure_example(passage: Passage) -> Example:
    """Measure what the pictures of one sequence show."""
    norms = measure_row_norms(passage)
    inputs = norms["trained"][0]
    return Example(
        n=passage.tokens,
        width=passage.run.model.config.hidden_size,
        gene=passage.gene,
        tokens=("[CLS]", *kmers(passage.gene.bases)),
        keep=passage.keep.cpu().numpy(),
        probabilities=predict(passage).numpy(),
        norms=norms,
        row_statistics=row_statistics(passage),
        **sum_rows(passage),
        singular_values=singular_values(passage),
        input_norm=float(np.median(inputs)),
        input_spread=float(np.ptp(inputs) / np.median(inputs)),
    )


def predict(passage: Passage) -> Float[Tensor, " class"]:
    """Return the probabilities that the classifier gives to the classes of the sequence."""
    return dna_classifier.predict(passage.run.model, passage.run.data.tokenizer, [passage.gene.bases])[0]


def measure_row_norms(passage: Passage) -> dict[str, np.ndarray]:
    """Return the norms of the rows of X, Q, K and V in one head, ``(kind, position)``, by model."""
    layer, head = NORMS_OF
    norms = {}
    for name, model in passage.models.items():
        rows = passage.stations[name][layer].x[: passage.tokens]
        attention = load(model).encoder_layers()[layer].attention
        norms[name] = stretching.row_norms(rows, attention, head).cpu().numpy()
    return norms


def row_statistics(passage: Passage) -> dict[int, dict[str, np.ndarray]]:
    """Return figure 8: the Lilliefors statistics of the rows, by layer and model."""
    statistics = {
        name: layer_profile.row_statistics(stations, passage.keep)["first"].cpu().numpy()
        for name, stations in passage.stations.items()
    }
    return {layer: {name: by_layer[layer] for name, by_layer in statistics.items()} for layer in ROWS_OF}


def sum_rows(passage: Passage) -> dict[str, dict]:
    """Return figures 9 and 13: the sums of the rows of three layers, by title, and those of all layers, by model."""
    sums = {name: layer_profile.sums(stations, passage.keep) for name, stations in passage.stations.items()}
    return {
        "sums": {
            f"{name}, layer {layer}": (name, of_model["second"][layer].cpu().numpy())
            for name, of_model in sums.items()
            for layer in SUMS_OF
        },
        "totals": {name: of_model["total"].cpu().numpy() for name, of_model in sums.items()},
    }


def singular_values(passage: Passage) -> dict[str, dict[str, np.ndarray]]:
    """Return figure 11: the singular values of the outputs of three heads, by title and model."""
    values = {
        name: layer_profile.singular_values(stations, passage.keep).cpu().numpy()
        for name, stations in passage.stations.items()
    }
    return {
        f"layer {layer}, head {head}": {name: of_model[layer, head] for name, of_model in values.items()}
        for layer, head in SPECTRA_OF
    }


def measure_large(passage: Passage, seeds: Iterable[int] = SEEDS) -> Float[np.ndarray, "seed layer"]:
    """Return the mean cosine of two rows by layer, with random weights as large as those of the classifier."""
    data, found = passage.run.data, []

    def initialise(seed: int) -> nn.Module:
        return controls.untrained(seed, data=data, device=passage.coded["input_ids"].device).model

    for control in make_controls(passage.run.model, initialise, rungs=[LARGE], seeds=seeds):
        stations, keep = variant_measures.pass_all(control.network, passage.coded)
        found.append([float(mean_pairwise_cosine(layer.second[keep])) for layer in stations])
    return np.array(found)


@torch.no_grad()
def measure_head(passage: Passage) -> Head:
    """Compute the logits from the row of [CLS] by hand, and compare logits, loss and predictions with the model's."""
    model, data = passage.run.model, passage.run.data
    coded = {name: passage.coded[name] for name in ("input_ids", "attention_mask", "labels")}
    output = model(**coded, output_hidden_states=True)
    class_row = output.hidden_states[-1][:, 0]
    logits = torch.tanh(model.bert.pooler.dense(class_row)) @ model.classifier.weight.T + model.classifier.bias
    log_softmax = logits.log_softmax(-1)[0]
    return Head(
        logits=float((logits - output.logits).abs().max()),
        loss=float((output.loss + log_softmax[data.labels.index(passage.gene.label)]).abs()),
        probabilities=float((predict(passage).to(log_softmax.device) - log_softmax.exp()).abs().max()),
        class_token_first=coded["input_ids"][0, 0].item() == data.tokenizer.cls_token_id,
        hidden_units=model.bert.pooler.dense.out_features,
        outputs=output.logits.shape[-1],
    )


# ---- One sequence in the nearest model

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
TUNED_SPECTRA_OF = ((0, 3), (4, 9), (5, 8))
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
        "singular": torch.stack([spectra[place] for place in TUNED_SPECTRA_OF]),
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
    folder = variant_seeds.find_run(f"minilm-{SEED}", SEED, recipe=RECIPE, device=device, watch=False)
    run = variant_measures.open_run(folder, device=device)
    networks = make_networks(run, device)
    arrays = measure(networks, run.data.encode([first_of_class(run)]))
    genes = controls.firsts(run.data)
    arrays["turn"] = np.stack([controls.survey_turns(network, run.data, genes) for network in networks.values()])
    return Result({}, arrays, {name: TOLERANCES.get(name, 0.05) for name in arrays})


def read_sequence(inputs: Inputs) -> tuple[FineTunedSequence, str]:
    """Read the record; return it with a sentence on where it comes from."""
    record, source = live_or_record("variant-classifier-fine-tuned-sequence", inputs, recompute=False)
    names = FineTunedSequence.__dataclass_fields__
    arrays = {name: record.array(name).astype(int if name == "heads" else float) for name in names}
    return FineTunedSequence(**arrays), source


TOLERANCES = {"sums": 5.0, "total": 20.0, "maps": 1.0, "heads": 0, "turn": 0.2}


EXPERIMENTS = {
    "fine-tuned-sequence": Experiment(
        models=("minilm",),
        compute=compute,
        minutes=12,
        seed=SEED,
        summary="One sequence in MiniLM fine-tuned on simulated genes, before it and with random weights: maps, "
        "rows, sums",
    )
}
