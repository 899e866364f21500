"""The authors' counts and recorded outputs, beside the book's classifier and what arithmetic makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from analysis.models.controls import RUNGS
from analysis.statistics.intervals import share_interval
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import K, kmers
from book.lab.training.dna_classifier import Data
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Result
from book.studies.shared import released_code as code
from book.studies.shared.released_code import AuthorsOutputs
from book.studies.text_and_code import repository
from book.studies.text_and_code.repository import BLOCKS

# ---- Counts: sequences, updates, words, rows and parameters as printed, as the code has them, and as they compute

Recorded = Record | Result
PAPER_TRAINING = 39_522
GENE_BASES = 3_822
SAMPLE = 400
"""Sequences of which the consensus is taken for the gene that all were simulated around."""


@dataclass(frozen=True)
class Sizes(Numbers):
    """Sequences and updates: those of the recorded run, and what the arithmetic of its settings gives.

    ``by_class`` is before the split; ``computed`` are training, validation and test, ``recorded`` the same as the
    notebook printed them.
    """

    sequences: int
    training: int
    validation: int
    tested: int
    updates: int
    warmup: int
    printed_updates: int
    majority: str
    by_class: Int[np.ndarray, " class"]
    computed: tuple[int, int, int]
    recorded: tuple[int, int, int]


@dataclass(frozen=True)
class Words(Numbers):
    """Words of a gene, rows of a sequence, tokens and parameters of the model."""

    bare_words: int
    padded_words: int
    tokens: int
    padding_rows: int
    added: int
    with_n: str
    parameters: str
    fresh: str
    parameter_count: int


@dataclass(frozen=True)
class Frames(Numbers):
    """The frames of a vocabulary's words on its gene: the authors', and that of the book's own classifier.

    ``shares`` and ``own_shares`` are ``(frame,)``; ``reference`` has for the gene's words in each frame how many there
    are and how many the authors' vocabulary holds.
    """

    zero: str
    placed: int
    uncodonic: str
    own_uncodonic: str
    copied: str
    inserted: str
    copied_times: str
    top: int
    plateau_sum: int
    groups: int
    shares: Float[np.ndarray, " frame"]
    own_shares: Float[np.ndarray, " frame"]
    reference: Int[np.ndarray, "frame 2"]
    plateaus: tuple[int, ...]


def measure_sizes(record: Recorded) -> Sizes:
    """Do the arithmetic of the split and of the schedule, beside what the notebook printed."""
    by_class = record.array("by_class")
    computed = code.split_sizes(int(by_class.sum()))
    training, validation, tested = computed
    updates, warmup = code.count_updates(training)
    return Sizes(
        sequences=int(by_class.sum()),
        training=training,
        validation=validation,
        tested=tested,
        updates=updates,
        warmup=warmup,
        printed_updates=code.EPOCHS * PAPER_TRAINING // code.BATCH,
        majority=percent(by_class.max() / by_class.sum(), 1),
        by_class=by_class,
        computed=computed,
        recorded=tuple(record.array("parts").tolist()),
    )


def measure_words(record: Recorded) -> Words:
    """Count words and rows of the reference gene, and build the classifier with the authors' vocabulary."""
    words = len(code.padded_words("A" * GENE_BASES))
    added = record["words"]
    model = code.build_classifier(code.BASE_VOCABULARY + added, len(record.array("by_class")))
    parameters = sum(each.numel() for each in model.parameters())
    return Words(
        bare_words=len(kmers("A" * GENE_BASES)),
        padded_words=words,
        tokens=words + 2,
        padding_rows=code.ROWS - words - 2,
        added=added,
        with_n=percent(record["words_with_n"] / added, 1),
        parameters=f"{parameters / 1e6:.1f}",
        fresh=f"{added * model.config.hidden_size / 1e6:.1f}",
        parameter_count=parameters,
    )


def measure_frames(record: Recorded, authors: AuthorsOutputs, data: Data) -> Frames:
    """Compare the frames of the authors' words with those of the book's own classifier on its invented gene.

    The invented sequences have no copied bases, and no deletion that is not of whole codons.
    """
    own = [word for word in data.tokenizer.get_vocab() if len(word) == K and set(word) <= set("ACGT")]
    counted, arrays = repository.count_frames(own, consensus(data.genes[:SAMPLE]))
    shares = record.array("frame_shares")
    copied, inserted = (record[name] / record[f"{name}_possible"] for name in ("copied", "inserted"))
    return Frames(
        zero=percent(shares[0]),
        placed=record["placed"],
        uncodonic=percent(record["uncodonic"]),
        own_uncodonic=percent(counted["uncodonic"].value, 1),
        copied=percent(copied, 1),
        inserted=percent(inserted, 1),
        copied_times=f"{copied / inserted:.0f}",
        top=authors.top_count,
        plateau_sum=sum(authors.plateaus),
        groups=len(authors.plateaus),
        shares=shares,
        own_shares=arrays["frame_shares"],
        reference=record.array("reference_frames"),
        plateaus=authors.plateaus,
    )


def consensus(genes: Sequence[Gene]) -> str:
    """Return the commonest base of every column of aligned sequences."""
    columns = np.array([list(gene.aligned) for gene in genes])
    counts = np.stack([(columns == base).sum(0) for base in "ACGT"])
    return "".join(np.array(list("ACGT"))[counts.argmax(0)])


# ---- The authors' recorded outputs beside the book's classifier and its controls, on the same quantities

CLASSES = ("GH", "Lambda", "Mu", "Alpha", "Beta", "Delta", "Gamma", "Omicron")
CONE_LAYER = 10
"""The layer of the recorded softmax cone, which the notebook's title counts as 11."""
UNIFORM = 461
"""Keys that hold 0.90 of a uniform row of 512."""
CONFIDENT = 0.93


@dataclass(frozen=True)
class Logits(Numbers):
    """The test sequences whose logits are public: right ones, errors by class, and how sure the errors were."""

    rows: int
    right: int
    errors: int
    accuracy: str
    interval: str
    confident: int
    softmax_error: float
    claimed_f1: str
    confusion: Int[np.ndarray, "class named"]
    by_class: Mapping[str, tuple[int, int, float, float]]


@dataclass(frozen=True)
class Closing(Numbers):
    """Minimal keys, softmax cone and ranks: the authors' records, and ours by network and seed.

    ``keys`` has ``(seed, layer)``, medians over heads; ``own_keys`` is of the model's own maps, as a share of the keys;
    ``cones`` and ``values`` are of one map, ``(seed,)``; ``ranks`` has per source the least and the most.
    """

    first: str
    lowest: str
    lowest_layer: int
    last: str
    here_first: str
    here_last: str
    control_last: str
    scaled_last: str
    permuted_last: str
    here_cone: str
    control_cone: str
    here_values: int
    control_values: str
    recorded_keys: Float[np.ndarray, "layer head"]
    keys: Mapping[str, Float[np.ndarray, "seed layer"]]
    own_keys: Float[np.ndarray, " layer"]
    cones: Mapping[str, Float[np.ndarray, " seed"]]
    values: Mapping[str, Float[np.ndarray, " seed"]]
    ranks: Mapping[str, Mapping[str, tuple[int, int]]]


def measure_logits(record: Recorded, authors: AuthorsOutputs) -> Logits:
    """Take the accuracy of the public logits with its exact interval."""
    rows, right, confusion = record["logits_rows"], record["logits_right"], record.array("confusion")
    whole = share_interval(right, rows)
    intervals = [share_interval(int(confusion[i, i]), count) for i, count in enumerate(BLOCKS)]
    return Logits(
        rows=rows,
        right=right,
        errors=rows - right,
        accuracy=percent(whole.value, 1),
        interval=f"{100 * whole.low:.1f} to {100 * whole.high:.1f} %",
        confident=int((record.array("error_confidence") > CONFIDENT).sum()),
        softmax_error=record["softmax_error"],
        claimed_f1=f"{authors.claimed_f1:.2f} %",
        confusion=confusion,
        by_class={
            name: (int(confusion[i, i]), count, share.low, share.high)
            for i, (name, count, share) in enumerate(zip(CLASSES, BLOCKS, intervals))
        },
    )


def measure_closing(record: Recorded, authors: AuthorsOutputs, minilm: Recorded, classifier: Recorded) -> Closing:
    """Compare the recorded outputs with the same quantities here, all of the code's steps repeated."""
    theirs = np.median(authors.minimal_keys, 1)
    networks = ("trained", *RUNGS)
    keys = {name: np.median(classifier.array(f"{name}/minimal_keys"), 2) for name in networks}
    cones = {name: classifier.array(f"{name}/softmax_cone")[:, CONE_LAYER] for name in networks}
    values = {name: classifier.array(f"{name}/singular_values")[:, CONE_LAYER] for name in networks}
    last = {name: f"{of[:, -1].min():.0f} to {of[:, -1].max():.0f}" for name, of in keys.items()}
    return Closing(
        first=f"{theirs[0]:.0f}",
        lowest=f"{theirs.min():.0f}",
        lowest_layer=int(theirs.argmin()),
        last=f"{theirs[-1]:.0f}",
        here_first=f"{keys['trained'][0, 0]:.0f}",
        here_last=f"{keys['trained'][0, -1]:.0f}",
        control_last=last["random"],
        scaled_last=last["random, as large"],
        permuted_last=last["permuted"],
        here_cone=f"{cones['trained'][0]:.3f}",
        control_cone=_span(cones["random"], ".1f"),
        here_values=int(values["trained"][0]),
        control_values=_span(values["random"], ".0f"),
        recorded_keys=authors.minimal_keys,
        keys=keys,
        own_keys=np.median(classifier.array("trained/own_minimal_keys"), 2)[0],
        cones=cones,
        values=values,
        ranks=compare_ranks(record, minilm, classifier),
    )


def compare_ranks(record: Recorded, minilm: Recorded, classifier: Recorded) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the least and the most rank of recomputed S and S V, by source and quantity."""
    theirs = {name: record.array(f"rank_{name}") for name in ("maps", "outputs")}
    sources = {"authors' base model": theirs}
    for name, (of, network) in {
        "text model": (minilm, "trained"),
        "classifier": (classifier, "trained"),
        "classifier, random": (classifier, "random"),
    }.items():
        sources[name] = {kind: of.array(f"{network}/rank_{kind}") for kind in ("maps", "outputs")}
    return {
        name: {kind: (int(ranks.min()), int(ranks.max())) for kind, ranks in of.items()} for name, of in sources.items()
    }


def _span(values: Float[np.ndarray, " seed"], form: str) -> str:
    return f"{values.min():{form}} to {values.max():{form}}"
