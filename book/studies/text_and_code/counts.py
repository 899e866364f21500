"""Counts: sequences, updates, words, rows and parameters as printed, as the code has them, and as they compute."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import K, kmers
from book.lab.training.dna_classifier import Data
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Result
from book.studies.shared import released_code as code
from book.studies.shared.authors_outputs import AuthorsOutputs
from book.studies.text_and_code import repository

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
