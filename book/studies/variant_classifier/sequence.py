"""One sequence in the bundled classifier and in its control: the pictures that the paper draws of one sequence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from analysis.models.controls import LARGE, SEEDS, make_controls
from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.transformer.activations import LayerActivations
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import kmers
from book.lab.mathematics import layer_profile, stretching
from book.lab.training import dna_classifier
from book.publish import Numbers
from book.studies.shared import variant_measures
from book.studies.variant_classifier import controls

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
    norms = row_norms(passage)
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


def row_norms(passage: Passage) -> dict[str, np.ndarray]:
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
