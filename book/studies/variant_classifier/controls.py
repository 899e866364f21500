"""The three seeds before training, what a map keeps within phases, and the records behind the chapter.

A word's phase is by how many bases the deletions before it have shifted it, modulo the stride (``sites.token_phases``).

Needs no trained weights. Of each class the first test sequence is measured; gates are read for the classes in ``READ``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from analysis.statistics import normality
from book.lab.dna import sites
from book.lab.dna.fasta import Gene
from book.lab.training import dna_classifier
from book.lab.training.dna_classifier import Data
from book.publish import Inputs, live_or_record
from book.publish.records import Experiment, Record, Result
from book.studies.shared import variant_columns, variant_measures, variant_seeds

# ---- Do heads keep words of one phase apart?

WINDOW = 8
"""Over so many words the rows beside a place are averaged."""


def kept_within(attention: Float[Tensor, "*head query key"], groups: Int[np.ndarray, " position"]) -> Tensor:
    """Return the share of each head's attention that stays within a group of positions.

    Where attention is uniform it is the share of pairs that are of one group.

    Raises
    ------
    ValueError
        If there is not one group a position.

    Examples
    --------
    >>> kept_within(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]]), np.array([0, 0, 5]))
    tensor([0.6667])
    """
    if attention.shape[-2:] != (len(groups), len(groups)):
        raise ValueError(f"groups must be {attention.shape[-1]}, one a position, got {len(groups)}")
    same = torch.from_numpy(groups[:, None] == groups).to(attention)
    return (attention * same).sum((-2, -1)) / attention.sum((-2, -1))


def turn_at(
    attention: Float[Tensor, "head query key"], places: Int[np.ndarray, " place"], window: int = WINDOW
) -> Float[Tensor, " head"]:
    """Return how far the rows of maps turn at some places, over how far they turn elsewhere.

    A turn is the total variation between the mean of so many rows before a place and the mean of as many from it on.
    Elsewhere is further than two windows from all places.

    Raises
    ------
    ValueError
        If there is no place, or none elsewhere.

    Examples
    --------
    >>> blocks = torch.eye(2).repeat_interleave(4, 0).repeat_interleave(4, 1)[None] / 4
    >>> drifting = 0.9 * blocks + 0.1 * torch.eye(8)
    >>> turn_at(drifting, np.array([4]), window=1).round().tolist()
    [10.0]
    """
    n = attention.shape[-1]
    ends = torch.cat([torch.zeros_like(attention[:, :1]), attention.cumsum(1)], 1)
    at = torch.arange(window, n - window + 1)
    before, after = ends[:, at] - ends[:, at - window], ends[:, at + window] - ends[:, at]
    turns = (after - before).abs().sum(-1) / (2 * window)
    on = torch.from_numpy(np.isin(at.numpy(), places))
    elsewhere = torch.from_numpy(np.abs(at.numpy()[:, None] - places).min(1, initial=n) > 2 * window)
    if not on.any() or not elsewhere.any():
        raise ValueError(f"places must leave some elsewhere, got {places.tolist()} of {n}")
    return turns[:, on].mean(1) / turns[:, elsewhere].mean(1)


@torch.no_grad()
def survey_turns(
    model: torch.nn.Module, data: Data, genes: Sequence[Gene], window: int = WINDOW
) -> Float[np.ndarray, "sequence layer"]:
    """Return how far rows turn where the phase changes, means over heads, for the sequences in which it does."""
    found = []
    for gene in genes:
        phase = sites.token_phases(gene)
        passed, keep = variant_measures.pass_all(model, data.encode([gene]))
        n = int(keep.sum()) - 1
        if len(borders := np.flatnonzero(np.diff(phase[:n])) + 1):
            maps = [layer.attention[:, 1 : n + 1, 1 : n + 1] for layer in passed]
            found.append([float(turn_at(each, borders, window).mean()) for each in maps])
    return np.array(found, np.float32)


@torch.no_grad()
def survey(model: torch.nn.Module, data: Data, genes: Sequence[Gene]) -> dict[str, np.ndarray]:
    """Measure sequences, [CLS] left out of rows and columns.

    Returns
    -------
    dict
        ``within`` ``(sequence, layer, head)``, what :func:`kept_within` returns; ``pairs`` ``(sequence,)``, the share
        of pairs of words with one phase, which is 1 where no deletion changes the phase.
    """
    within, pairs = [], []
    for gene in genes:
        phase = sites.token_phases(gene)
        passed, keep = variant_measures.pass_all(model, data.encode([gene]))
        maps = torch.stack([s.attention[:, keep][:, :, keep][:, 1:, 1:] for s in passed])
        within.append(kept_within(maps, phase[: maps.shape[-1]]).cpu().numpy())
        pairs.append(float((phase[:, None] == phase).mean()))
    return {"within": np.array(within, np.float32), "pairs": np.array(pairs, np.float32)}


# ---- The three seeds before training: the measures of ``variant-seeds`` on the weights that each training began with

READ = ("Alpha", "GH/490R", "Lambda", "Omicron")
"""Classes whose sequence has its gates read, which takes most of the time; the page draws their columns."""
MANY = 60
"""Untrained models of which only the sums of rows are measured: what chance does to table 1."""
KEPT = tuple(name for name in variant_seeds.KEPT if name != "gates")


def untrained(
    seed: int,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    data: dna_classifier.Data | None = None,
    device: torch.device | str = "cpu",
) -> variant_measures.Run:
    """Return a classifier as its training begins: the seed's own sequences, vocabulary and initial weights."""
    from transformers import BertForSequenceClassification

    data = data or dna_classifier.make_data(recipe, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = dna_classifier.configure(recipe, data)
        model = BertForSequenceClassification._from_config(settings, attn_implementation="eager")
    return variant_measures.Run(model.eval().requires_grad_(False).to(device), data, {"seed": seed}, None)


def firsts(data: dna_classifier.Data) -> list:
    """Return the first test sequence of each class, in the order of the classes."""
    found = {}
    for i in data.parts.test:
        found.setdefault(data.genes[i].label, data.genes[i])
    return [found[label] for label in data.labels]


def one(
    seed: int, run: variant_measures.Run | None = None, device: torch.device | str = "cpu"
) -> dict[str, np.ndarray]:
    """Measure the untrained model of one seed: that run, or one made anew on the device.

    Returns
    -------
    dict
        :data:`KEPT` by sequence; ``gates``, ``profile`` and ``enriched`` for the classes of :data:`READ`; ``within``
        and ``pairs`` of ``phases.survey``.
    """
    run = run or untrained(seed, device=device)
    genes = firsts(run.data)
    read = [gene.label in READ for gene in genes]
    some = [gene for gene, each in zip(genes, read) if each]
    found = variant_measures.survey(run.model, run.data, genes, read=read)
    measured = variant_measures.stack(found)
    arrays = {name: measured[name] for name in KEPT} | {"maps": variant_measures.largest_values(run.model)}
    arrays["gates"] = np.stack([each["gates"] for each in found if "gates" in each]).astype(np.float32)
    profiles = variant_columns.profiles(run.data, some, [each for each in found if "gates" in each])
    arrays["enriched"] = variant_columns.by_sequence(profiles["profile"], profiles["profile_marks"]).astype(np.float32)
    arrays["profile"] = profiles["profile"][:, variant_columns.MASSES.index("columns")]
    return arrays | survey(run.model, run.data, genes)


@torch.no_grad()
def many_sums(
    count: int,
    data: dna_classifier.Data,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    device: torch.device | str = "cpu",
) -> np.ndarray:
    """Return table 1 for many untrained models: D of the sum of one sequence's rows, ``(model, layer)``."""
    coded, found = data.encode(firsts(data)[-1:], device=device), []
    for seed in range(count):
        states = untrained(seed, recipe, data, device).model(**coded, output_hidden_states=True).hidden_states[1:]
        found.append(normality.lilliefors(torch.cat(states).sum(1)).cpu().numpy())
    return np.array(found, np.float32)


def compute(device: torch.device) -> Result:
    """Put the three seeds side by side, arrays with the seed first; and ``many_D_sum`` of :data:`MANY` models."""
    seeds = [one(seed, device=device) for seed in variant_seeds.SEEDS]
    longest = max(found["profile"].shape[-1] for found in seeds)
    for found in seeds:
        found["profile"] = np.pad(found["profile"], ((0, 0), (0, longest - found["profile"].shape[-1])))
    arrays = {name: np.stack([found[name] for found in seeds]) for name in seeds[0]}
    arrays["many_D_sum"] = many_sums(MANY, dna_classifier.make_data(dna_classifier.MINI, 0), device=device)
    tolerances = {name: variant_measures.tolerance(name) for name in arrays}
    return Result({}, arrays, tolerances | {"enriched": 0.3, "pairs": 1e-6})


EXPERIMENT = Experiment(
    compute=compute,
    minutes=6,
    seed=variant_seeds.SEEDS[-1],
    summary="The three seeds of the variant classifier before training: the measures on 8 sequences each",
)


# ---- The records behind the chapter: the classifier in three seeds, and each seed before its training

SEEDS = (0, 1, 2)
RECORDS = ("variant-measures", "variant-seeds", "variant-classifier-controls", "variant-data-real")


class Pair(NamedTuple):
    """The same measure of the trained classifiers and of their controls, a seed each."""

    trained: Float[ndarray, "seed sequence layer"]
    control: Float[ndarray, "seed sequence layer"]


@dataclass(frozen=True)
class Recorded:
    """What was recorded; ``sources`` says where each record comes from.

    ``measures`` is of seed 0 and its control on 16 sequences, ``seeds`` of three seeds on 8, ``controls`` of these
    seeds before training, ``real`` of the classifier that was trained around real lineages.
    """

    measures: Record
    seeds: Record
    controls: Record
    real: Record
    sources: tuple[str, ...]

    def pair(self, name: str) -> Pair:
        """Return an array of the three seeds beside that of their controls."""
        return Pair(self.seeds.array(name), self.controls.array(name))


def read_records(inputs: Inputs) -> Recorded:
    """Read the four records."""
    records, sources = zip(*(live_or_record(name, inputs, recompute=False) for name in RECORDS))
    return Recorded(*records, sources)
