"""What the heads' maps are: the weights behind them, the gates they are made of, and the phases they tell apart."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from analysis.maps.gates import GATES, PATTERNS, read_gates
from analysis.statistics.intervals import Interval, grouped_share_interval
from book.publish import Numbers
from book.publish.phrases import enumerated, percent
from book.publish.records import Disagrees
from book.studies.shared import variant_measures
from book.studies.variant_classifier import controls
from book.studies.variant_classifier.controls import SEEDS, Recorded
from book.studies.variant_classifier.sequence import NETWORKS, FineTunedSequence, Passage, choose_heads, pool, strengths

PAPER_LARGEST = (1.72, 2.68, 0.98)
"""Largest singular values of W_Q, W_K and W_V in head 3 of layer 0, as the paper has them."""
PAPER_WIDTH, PAPER_HEAD_WIDTH, PAPER_DEVIATION = 768, 64, 0.02
PAPER_HEADS = {
    "directional": (3, (3, 8), ("directional",)),
    "open": (4, (1, 3), ("open",)),
    "contextual": (5, (6, 9), ("backward", "forward")),
    "clusters": (6, (1, 0), ("cluster",)),
    "several": (7, (5, 1), PATTERNS),
}
"""The paper's figures 3 to 7: number, layer and head counted from 0, and the gates that the head is drawn for."""
CARRIES = 0.05
"""A map holds a gate when the gate carries this share of its attention."""


@dataclass(frozen=True)
class Weights(Numbers):
    """Largest singular values of the heads' W_Q, W_K and W_V, ``(map, seed, layer, head)``, by model.

    ``over_random`` has them over those of random weights; so has ``paper``, in the order Q, K, V.
    ``longer`` is the largest share of rows that become longer in Q, K or V, over heads and sequences.
    """

    random_sigma: str
    most_grown: str
    longer: str
    largest: Mapping[str, Float[np.ndarray, "map seed layer head"]]
    over_random: Mapping[str, Float[np.ndarray, "map seed layer head"]]
    paper: Float[np.ndarray, " map"]


class NamedHead(NamedTuple):
    """A head that a figure of the paper names: what its gates carry here, by seed, and its rank among all heads."""

    figure: int
    head: tuple[int, int]
    carried: Float[np.ndarray, " seed"]
    control: float
    ranks: tuple[int, ...]


class Mixture(NamedTuple):
    """Shares of a seed's maps: with any pattern, with a cluster, and, of the latter, with another pattern as well."""

    any_pattern: Interval
    cluster: Interval
    company: Interval


@dataclass(frozen=True)
class Gallery:
    """Maps of one sequence before and after a training from random weights, as ``FineTunedSequence`` has them.

    ``heads`` are those in which each kind of gate is strongest on average over sequences; networks are the trained
    model and its control.
    """

    heads: Int[np.ndarray, "kind place"]
    maps: Float[np.ndarray, "network kind query key"]
    carried: Float[np.ndarray, "network kind"]


@dataclass(frozen=True)
class Gates(Numbers):
    """What gates carry: means over sequences by seed, in the controls, and their mixtures in single maps.

    ``control`` is the most that a head carries in any of the controls; ``control_maps`` are their single maps.
    ``clustered`` counts in each seed the sequences, of 8,
    with a map that holds a cluster.
    """

    open: str
    open_ranks: str
    open_named: str
    clustered: str
    by_seed: Float[np.ndarray, "seed layer head gate"]
    control: Float[np.ndarray, "layer head gate"]
    control_maps: Float[np.ndarray, "map layer head gate"]
    heads: Mapping[str, NamedHead]
    mixtures: tuple[Mixture, ...]
    clustered_sequences: Int[np.ndarray, " seed"]
    gallery: Gallery


@dataclass(frozen=True)
class Phases(Numbers):
    """Attention within words of one phase, on one sequence of each class, beside the share of such pairs of words.

    ``clusters`` is what clusters carry by seed and class; ``holding_changed`` and ``holding_unchanged`` are the shares
    of maps that hold one, where the phase changes along the sequence and where it does not, by seed. ``turn`` says how
    far rows turn where it changes, over how far elsewhere, mean over classes and heads; ``turn_tuned`` in the
    fine-tuned model.
    """

    hold: str
    hold_still: str
    shifted: str
    unshifted: str
    pairs: Float[np.ndarray, " class"]
    within: Float[np.ndarray, "class layer head"]
    control: Float[np.ndarray, "class layer head"]
    clusters: Float[np.ndarray, "seed class"]
    holding_changed: Float[np.ndarray, " seed"]
    holding_unchanged: Float[np.ndarray, " seed"]
    turn: float
    turn_control: float
    turn_tuned: float
    turn_start: float

    @property
    def unchanged(self) -> Bool[np.ndarray, " class"]:
        """Mark the classes whose phase never changes: all pairs of words have one phase."""
        return self.pairs == 1


def random_largest(deviation: float, width: int, head_width: int) -> float:
    """Return about what a random matrix has as its largest singular value.

    >>> round(random_largest(0.02, 768, 64), 2)
    0.71
    """
    return deviation * (math.sqrt(width) + math.sqrt(head_width))


def measure_weights(recorded: Recorded, passage: Passage) -> Weights:
    """Compare the weights of Q, K and V with random ones, and the rows that they make with those of X.

    Raises
    ------
    Disagrees
        If the record of seed 0 is not of the bundled classifier.
    """
    largest = {name: values.swapaxes(0, 1) for name, values in recorded.pair("maps")._asdict().items()}
    if not np.allclose(variant_measures.largest_values(passage.run.model), largest["trained"][:, 0], atol=1e-3):
        raise Disagrees("variant-seeds: the maps of seed 0 are not those of the bundled classifier")
    over_random = {name: values / largest["control"].mean((2, 3), keepdims=True) for name, values in largest.items()}
    sigma = random_largest(PAPER_DEVIATION, PAPER_WIDTH, PAPER_HEAD_WIDTH)
    return Weights(
        random_sigma=f"{sigma:.2f}",
        most_grown=enumerated(100 * (over_random["trained"].max((1, 2, 3)) - 1), ".0f") + " %",
        longer=percent(recorded.pair("grown").trained.max()),
        largest=largest,
        over_random=over_random,
        paper=np.array(PAPER_LARGEST) / sigma,
    )


def measure_gates(recorded: Recorded, passage: Passage) -> Gates:
    """Say what the maps of three seeds and of their controls are made of."""
    measures, gates = recorded.measures, recorded.pair("gates")
    by_seed = np.stack([measures.array("gates").mean(0), *gates.trained[1:].mean(1)])  # seed 0 on 16 sequences
    control = np.maximum(measures.array("control_gates").mean(0), gates.control.mean(1).max(0))
    heads = {kind: measure_head_of_paper(by_seed, control, *named) for kind, named in PAPER_HEADS.items()}
    clustered = (gates.trained[..., GATES.index("cluster")] >= CARRIES).any((2, 3)).sum(1)
    return Gates(
        open=percent(by_seed[..., GATES.index("open")].max(), 2),
        open_ranks=enumerated(heads["open"].ranks),
        open_named=f"{100 * heads['open'].carried.max():.1g} %",
        clustered=enumerated(clustered),
        by_seed=by_seed,
        control=control,
        control_maps=np.concatenate([*gates.control, measures.array("control_gates")]),
        heads=heads,
        mixtures=tuple(measure_mixture(shares) for shares in gates.trained),
        clustered_sequences=clustered,
        gallery=measure_gallery(by_seed[0], passage),
    )


def measure_head_of_paper(
    by_seed: Float[np.ndarray, "seed layer head gate"],
    control: Float[np.ndarray, "layer head gate"],
    figure: int,
    head: tuple[int, int],
    gates: tuple[str, ...],
) -> NamedHead:
    """Say what some gates carry in a head that the paper names, and where that stands among all heads."""
    parts = [GATES.index(gate) for gate in gates]
    carried = by_seed[..., parts].sum(-1)
    ranks = tuple(1 + int((scores > scores[head]).sum()) for scores in carried)
    return NamedHead(figure, head, carried[:, *head], control[head][parts].sum(), ranks)


def measure_mixture(shares: Float[np.ndarray, "sequence layer head gate"]) -> Mixture:
    """Count the maps of a seed that hold gates; only sequences are counted as independent."""
    held = shares[..., : len(PATTERNS)] >= CARRIES
    cluster = held[..., GATES.index("cluster")]
    others = np.delete(held, GATES.index("cluster"), -1).any(-1)
    sequences = np.indices(cluster.shape)[0]
    return Mixture(
        share_of_maps(held.any(-1), sequences),
        share_of_maps(cluster, sequences),
        share_of_maps(others[cluster], sequences[cluster]),
    )


def share_of_maps(hits: Bool[np.ndarray, "..."], sequences: Int[np.ndarray, "..."]) -> Interval:
    """Return a share of maps with the interval that lets only their sequences count as independent."""
    return grouped_share_interval(hits, sequences.ravel().tolist())


def measure_gallery(shares: Float[np.ndarray, "layer head gate"], passage: Passage) -> Gallery:
    """Read the maps of the heads in which each kind of gate is strongest; no head is taken twice."""
    heads, n = choose_heads(strengths(shares)), passage.tokens
    maps, carried = [], []
    for stations in passage.stations.values():
        some = torch.stack([stations[layer].attention[head, :n, :n] for layer, head in heads])
        maps.append(pool(some).cpu().numpy())
        carried.append(np.diagonal(strengths(read_gates(some).scores.cpu().numpy())))
    return Gallery(np.array(heads), np.stack(maps), np.stack(carried))


def measure_phases(recorded: Recorded, passage: Passage, tuned: FineTunedSequence) -> Phases:
    """Say whether heads keep words of one phase apart, and in which classes clusters are held."""
    data = passage.run.data
    genes = controls.firsts(data)
    live = controls.survey(passage.run.model, data, genes)
    turn = {name: float(controls.survey_turns(model, data, genes).mean()) for name, model in passage.models.items()}
    clusters = recorded.seeds.array("gates")[..., GATES.index("cluster")]  # (seed, class, layer, head)
    unchanged, tallest = live["pairs"] == 1, clusters.max((0, 2, 3))
    holding = (clusters >= CARRIES).mean((2, 3))
    changed, still = holding[:, ~unchanged].mean(1), holding[:, unchanged].mean(1)
    return Phases(
        hold=enumerated(100 * changed, ".0f") + " %",
        hold_still=enumerated(100 * still, ".0f") + " %",
        shifted=f"{percent(tallest[~unchanged].min())} to {percent(tallest[~unchanged].max())}",
        unshifted=percent(tallest[unchanged].max()),
        pairs=live["pairs"],
        within=live["within"],
        control=recorded.controls.array("within")[SEEDS[0]],
        clusters=clusters.mean((2, 3)),
        holding_changed=changed,
        holding_unchanged=still,
        turn=turn["trained"],
        turn_control=turn["control"],
        turn_tuned=float(tuned.turn[NETWORKS.index("fine-tuned")].mean()),
        turn_start=float(tuned.turn[NETWORKS.index("start")].mean()),
    )
